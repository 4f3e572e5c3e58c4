"""The errors users see. Each message names the value, the reason and the remedy."""

from __future__ import annotations


class ParadraftError(Exception):
    """Root of every error this package raises on purpose."""

    def __init__(self, problem: str, *, remedy: str) -> None:
        """Join the problem (which value, and why it cannot be used) with what to do about it."""
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        """Keep copies faithful: the default would call the constructor with one argument."""
        return (_rebuild, (type(self), self.problem, self.remedy))


def _rebuild(kind: type[ParadraftError], problem: str, remedy: str) -> ParadraftError:
    return kind(problem, remedy=remedy)


class ConfigError(ParadraftError):
    """An option, a configuration key or a command-line value cannot be used."""


class ModelError(ParadraftError):
    """A model folder or file is missing, damaged, foreign or not supported."""


class AlignmentError(ParadraftError):
    """A drafter does not fit its target: other vocabulary, other special tokens, other shape."""


class CapacityError(ParadraftError):
    """Memory set aside for the key-value cache, or for rows, is used up."""


class ProtocolError(ParadraftError):
    """A part behind a port broke its contract: bad ids, wrong shapes, values that are not finite."""


class RequestRefused(ParadraftError):
    """One request cannot be served as asked; the engine and its other requests go on."""
