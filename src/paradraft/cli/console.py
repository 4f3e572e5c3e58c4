"""Where commands write: results to standard output, everything else to standard error."""

from __future__ import annotations

from rich.console import Console

_UNBROKEN = 1000  # columns of a file or pipe, so that no line of a table is broken


def out() -> Console:
    """Return a console on standard output: colours and wrapping only where it is a terminal."""
    return _console(stderr=False)


def err() -> Console:
    """Return a console on standard error."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, soft_wrap=True, width=_UNBROKEN)
