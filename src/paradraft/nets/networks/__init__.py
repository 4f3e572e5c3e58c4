"""Drafting networks as torch modules: what training fits and serving copies its weights from."""
