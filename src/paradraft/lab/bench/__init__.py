"""Benchmarks: arms interleaved on the same prompts, counted, compared and written down."""
