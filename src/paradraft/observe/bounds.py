"""Bounds of the histograms that requests are counted in."""

from __future__ import annotations

# A fast engine answers a token in milliseconds, so bounds are close there and wide where a person waits anyway.
_FAST = (0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2)
TOKEN_SECONDS = (*_FAST, 0.3, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 30.0)
REQUEST_SECONDS = (*_FAST, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0)
SHARES = tuple(round(0.05 * step, 2) for step in range(1, 20))  # what lies above is nearly everything
CHOICES = (1.0, 2.0, 5.0, 10.0, 20.0)
GAMMAS = (*map(float, range(17)), 24.0, 32.0, 64.0)


def token_bounds(longest: int) -> tuple[float, ...]:
    """Return 1, 2, 5, 10 .. up to the most tokens a row holds."""
    bounds = [float(step * 10**power) for power in range(7) for step in (1, 2, 5)]
    return tuple(bound for bound in bounds if bound <= longest)
