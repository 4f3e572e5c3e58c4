"""Architectures that only transformers knows, run by its modules on our paged cache."""
