"""Commands; help needs no torch."""
