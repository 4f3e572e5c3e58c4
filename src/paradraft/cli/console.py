"""Where commands write: results to standard output, everything else to standard error."""

from __future__ import annotations

from rich.console import Console


def out() -> Console:
    """Return a console on standard output; colours only where it is a terminal, and no wrapping of piped text."""
    return Console(highlight=False, soft_wrap=True)


def err() -> Console:
    """Return a console on standard error."""
    return Console(stderr=True, highlight=False, soft_wrap=True)
