"""Tokens out of rows of logits, chosen by the native core. The numpy code of core and verify is its twin."""

from __future__ import annotations

import ctypes
from ctypes import byref

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints
from paradraft.core.errors import ModelError, ProtocolError
from paradraft.core.largest import largest
from paradraft.core.records import RowSampling
from paradraft.native.addresses import address
from paradraft.native.library import check, load_library
from paradraft.native.structs import ErrorStruct, SamplingStruct


class NativeChooser:
    """Implements core.ports.Chooser. Stateless: one serves every row and thread."""

    def __init__(self, instruction_set: str | None = None) -> None:
        """Load the library; raises ModelError and ConfigError as native.executor.Executor does."""
        library = load_library()
        self._functions = library.functions
        self._instruction_set = library.instruction_set(instruction_set)

    def choose(self, logits: FloatArray, sampling: RowSampling, position: int) -> int | None:
        """Return the token that the numpy code draws from logits [V], None where it must be asked itself.

        That is where rounding could decide, where a token outside the 256 most probable may win after a cut, and where
        logits are not finite. Raises ProtocolError for a row without temperature.
        """
        params = sampling.params
        given = SamplingStruct(
            params.temperature, params.top_p, params.min_p, params.top_k, sampling.seed, sampling.choice
        )
        token, error = ctypes.c_int32(), ErrorStruct()
        place = logits_address(logits)
        code = self._functions.paradraft_choose(
            place, len(logits), byref(given), position, self._instruction_set, byref(token), byref(error)
        )
        if code:
            check(code, error)
        return token.value if token.value >= 0 else None

    def largest(self, logits: FloatArray, count: int) -> tuple[IntArray, FloatArray]:
        """Return ids and values of the largest `count` of logits [V], by (-logit, id)."""
        kept = min(count, len(logits))
        if kept <= 0:
            return ints([]), logits[:0]
        ids, values = np.empty(kept, dtype=np.int32), np.empty(kept, dtype=np.float32)
        is_done, error = ctypes.c_int32(), ErrorStruct()
        code = self._functions.paradraft_largest(
            logits_address(logits),
            len(logits),
            kept,
            self._instruction_set,
            address(ids),
            address(values),
            byref(is_done),
            byref(error),
        )
        if code:
            check(code, error)
        return (ids, values) if is_done.value else largest(logits, count)


def find_chooser() -> NativeChooser | None:
    """Return a chooser, None where there is no library that fits; raises ConfigError for a bad instruction set."""
    try:
        return NativeChooser()
    except ModelError:
        return None


def logits_address(logits: FloatArray) -> int:
    """Return where logits lie; ProtocolError unless they are a contiguous float32 vector."""
    if logits.dtype != np.float32 or logits.ndim != 1 or not logits.flags.c_contiguous:
        raise ProtocolError(
            f"An array of shape {list(logits.shape)} in {logits.dtype.name} stands where logits belong.",
            remedy="Give one contiguous float32 row.",
        )
    return address(logits)
