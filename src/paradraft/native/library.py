"""Finds, loads and questions the shared library of the decode core."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from paradraft.core.errors import ConfigError, ModelError, ParadraftError, ProtocolError
from paradraft.native.guesser_structs import GUESSER_SIGNATURES
from paradraft.native.structs import SIGNATURES, VERSION, ErrorStruct, declare

INSTRUCTION_SETS: Mapping[str, int] = {"portable": 0, "avx2": 1, "avx512": 2}
BEST = -1
# Forces a path, for tests and for finding faults: one of INSTRUCTION_SETS.
INSTRUCTION_SET_VARIABLE = "PARADRAFT_INSTRUCTION_SET"
# Names the library's file, for tests and for trying a build out; no other place is looked at then.
LIBRARY_VARIABLE = "PARADRAFT_NATIVE_LIBRARY"
_FILE_NAME = "libparadraft_native.so"
_CHECKOUT = Path(__file__).parents[3] / "native"
_BUILD = "Build it with `cmake -S native -B native/build && cmake --build native/build`, or use the torch runner."
_PLACES = (
    Path(__file__).parent / _FILE_NAME,  # of an installed package
    _CHECKOUT / "build" / _FILE_NAME,  # built by hand
    _CHECKOUT / "editable" / "library" / _FILE_NAME,  # built by `pip install -e`
)
_NO_MEMORY, _NOT_SUPPORTED = 2, 3


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Library:
    """The loaded library and the instruction sets that it and this machine have, the fastest last."""

    path: Path
    functions: ctypes.CDLL
    instruction_sets: tuple[str, ...]

    def instruction_set(self, name: str | None = None) -> int:
        """Return the number of an instruction set: the named one, else the environment's, else the fastest.

        Raises ConfigError for one that is unknown or that this machine lacks.
        """
        wanted = name or os.environ.get(INSTRUCTION_SET_VARIABLE)
        if not wanted:
            return BEST
        if wanted not in self.instruction_sets:
            raise ConfigError(
                f"instruction set {wanted!r} cannot run here.",
                remedy=f"Choose one of {', '.join(self.instruction_sets)}.",
            )
        return INSTRUCTION_SETS[wanted]


def find_library() -> Path | None:
    """Return the library's file, the newest if it was built in several places, None if it was not built."""
    named = os.environ.get(LIBRARY_VARIABLE)
    built = [path for path in ([Path(named)] if named else _PLACES) if path.is_file()]
    return max(built, key=lambda path: path.stat().st_mtime_ns, default=None)


def load_library() -> Library:
    """Return the library, loaded once per process.

    Raises ModelError if it is not there, cannot be loaded, or belongs to another version of the package.
    """
    path = find_library()
    if path is None:
        raise ModelError(f"The native decode core, {_FILE_NAME}, was not built.", remedy=_BUILD)
    return _load(path)


@cache
def _load(path: Path) -> Library:
    try:
        functions = ctypes.CDLL(str(path))
        found = functions.paradraft_version()
        if found != VERSION:
            raise ModelError(
                f"{path} has version {found} of the decode core's interface, not {VERSION}.", remedy=_BUILD
            )
        declare(functions, {**SIGNATURES, **GUESSER_SIGNATURES})
    except (OSError, AttributeError) as error:
        raise ModelError(f"{path} cannot be loaded: {error}.", remedy=_BUILD) from error
    names = tuple(name for name, number in INSTRUCTION_SETS.items() if functions.paradraft_has(number))
    return Library(path=path, functions=functions, instruction_sets=names)


def check(code: int, error: ErrorStruct) -> None:
    """Raise the error that a call's return code stands for: ProtocolError, ModelError or ConfigError."""
    if not code:
        return
    problem = error.message.decode("utf-8", "replace")
    kind: type[ParadraftError] = ProtocolError
    remedy = "Correct the caller: these values do not fit the model."
    if code == _NO_MEMORY:
        kind, remedy = ModelError, "Free memory, or hold fewer tokens in the cache."
    elif code == _NOT_SUPPORTED:
        kind, remedy = ConfigError, "Choose another instruction set or kind, or use the torch runner."
    raise kind(problem, remedy=remedy)
