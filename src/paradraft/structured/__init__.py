"""Grammars of answers, enforced through llguidance; the only room that knows the library."""
