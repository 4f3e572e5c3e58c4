"""Figures of a running server in Prometheus' format. Knows only core."""
