"""Where commands write: results to standard output, everything else to standard error."""

from __future__ import annotations

from rich.console import Console


def out() -> Console:
    """Return a console on standard output: colours and wrapping only where it is a terminal."""
    return _console(stderr=False)


def err() -> Console:
    """Return a console on standard error."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False)
    console.soft_wrap = not console.is_terminal
    return console
