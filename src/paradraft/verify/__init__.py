"""Which drafts stand: laws, rules and noise. Runs without torch."""
