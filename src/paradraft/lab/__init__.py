"""Measuring: benchmarks, comparison, exactness, reports."""
