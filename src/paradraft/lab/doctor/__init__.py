"""What this machine can do and why: facts, checks on them, and a remedy for whatever is wrong."""
