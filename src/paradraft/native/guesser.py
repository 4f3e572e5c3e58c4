"""Drafting without a network in the native core; drafters/native_merged.py says what it is the twin of."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from ctypes import byref
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from paradraft.core.arrays import DoubleArray, IntArray
from paradraft.core.errors import ProtocolError
from paradraft.native.addresses import address, int_address
from paradraft.native.guesser_structs import (
    MOST_SHARES,
    OTHER_WEIGHTS,
    SOURCE_WEIGHTS,
    DraftsStruct,
    GuesserOptionsStruct,
    GuesserRowStruct,
    PriceStruct,
    TableOrderStruct,
    handle_of,
)
from paradraft.native.library import check, load_library
from paradraft.native.structs import ErrorStruct
from paradraft.native.table_arrays import ContextsOfOneLength, contiguous

KINDS = ("suffix", "recent", "table")  # by number
Step = tuple[int, int, int, int, int, int]  # row, address of its text [length], length, known, num_nodes, depth


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GuesserOptions:
    """What a guesser is made of; see paradraft_guesser_options."""

    vocab_size: int
    kinds: Sequence[str]  # of KINDS, in the order in which they are blended
    weights: DoubleArray  # [2, SOURCE_WEIGHTS * len(kinds) + OTHER_WEIGHTS]
    width: int
    shared_tokens: int
    row_tokens: int
    counted_tokens: int
    learned_contexts: int
    orders: Sequence[ContextsOfOneLength] = ()
    frequent: IntArray
    frequent_log_shares: DoubleArray


class Drafts(NamedTuple):
    """Drafts of R rows, N nodes in all; parents count within a row."""

    starts: IntArray  # [R+1]
    nodes: IntArray  # [4, N] tokens, parents, depths, bits of sources
    confidence: DoubleArray  # [N]
    expected: DoubleArray  # [R]


class Guesser:
    """One guesser. Rows go by the numbers that `begin` gives; it is freed with this object."""

    def __init__(self, options: GuesserOptions) -> None:
        """Build a guesser; raises ModelError without a library, ProtocolError for options that cannot be."""
        self._functions = load_library().functions
        self._options = options
        self._orders = [contiguous(order) for order in options.orders]  # read as long as the guesser lives
        kinds = np.array([KINDS.index(kind) for kind in options.kinds], dtype=np.int32)
        weights = np.ascontiguousarray(options.weights, dtype=np.float64)
        if weights.shape != (2, self.num_weights):
            raise ProtocolError(
                f"Weights of shape {list(weights.shape)} do not fit {len(kinds)} sources.",
                remedy=f"Give [2, {self.num_weights}].",
            )
        frequent = np.ascontiguousarray(options.frequent, dtype=np.int32)
        log_shares = np.ascontiguousarray(options.frequent_log_shares, dtype=np.float64)
        if len(frequent) != len(log_shares):
            raise ProtocolError(
                f"{len(frequent)} frequent tokens have {len(log_shares)} shares.", remedy="Give one for each."
            )
        given = GuesserOptionsStruct(
            options.vocab_size,
            len(kinds),
            address(kinds),
            address(weights),
            options.width,
            options.shared_tokens,
            options.row_tokens,
            options.counted_tokens,
            options.learned_contexts,
            len(self._orders),
            (TableOrderStruct * len(self._orders))(*[struct for struct, _ in self._orders]),
            len(frequent),
            address(frequent),
            address(log_shares),
        )
        handle = ctypes.c_void_p()
        self._call("create", byref(given), byref(handle))
        self._handle = handle_of(handle)
        weakref.finalize(self, self._functions.paradraft_guesser_destroy, self._handle)
        self._room = _Room(0, 0)

    @property
    def num_weights(self) -> int:
        """Return how many weights a blend has."""
        return SOURCE_WEIGHTS * len(self._options.kinds) + OTHER_WEIGHTS

    def weights(self, *, is_warm: bool) -> DoubleArray:
        """Return the blend's weights of greedy rows or of others, [num_weights]."""
        weights = np.empty(self.num_weights)
        self._call("weights", self._handle, int(is_warm), address(weights))
        return weights

    def begin(self, *, tenant: str, answer_from: int, seed: int, choice: int, is_warm: bool, has_noise: bool) -> int:
        """Begin a row and return its number; see paradraft_guesser_row."""
        name = tenant.encode("utf-8", "surrogatepass")
        given = GuesserRowStruct(name, len(name), answer_from, seed, choice, int(is_warm), int(has_noise))
        row = ctypes.c_int64()
        self._call("begin", self._handle, byref(given), byref(row))
        return row.value

    def end(self, row: int, text: IntArray) -> None:
        """End a row whose whole text is known, [n]: what it produced is kept for its tenant."""
        self._call("end", self._handle, row, int_address(text), len(text))

    def look_up(self, steps: Sequence[Step]) -> None:
        """Read on in the rows' texts, so that they can be asked for, or grown."""
        given = np.array(steps, dtype=np.int64)
        self._call("propose", self._handle, address(given), len(steps), None, None)

    def propose(self, steps: Sequence[Step], price: tuple[float, float]) -> Drafts:
        """Read on and return each row's draft; price is that of a node, and of the first one besides."""
        given = np.array(steps, dtype=np.int64)
        room = self._room_for(len(steps), sum([step[4] for step in steps]))
        self._call("propose", self._handle, address(given), len(steps), byref(PriceStruct(*price)), byref(room.struct))
        return room.drafts(len(steps))

    def grow(self, row: int, nodes: int, depth: int, width: int, price: tuple[float, float]) -> Drafts:
        """Return the draft of one row that was looked up."""
        room = self._room_for(1, nodes)
        self._call("grow", self._handle, row, nodes, depth, width, byref(PriceStruct(*price)), byref(room.struct))
        return room.drafts(1)

    def observe(self, steps: Sequence[Step], starts: IntArray, tokens: IntArray) -> None:
        """Learn what the target chose: tokens from starts[r] to starts[r+1] for the row of each step."""
        if len(starts) != len(steps) + 1 or int(starts[-1]) > len(tokens):
            raise ProtocolError(
                f"{len(starts)} starts of {len(tokens)} tokens do not fit {len(steps)} rows.",
                remedy="Give one start for each row and their end.",
            )
        given = np.array(steps, dtype=np.int64)
        self._call("observe", self._handle, address(given), len(steps), int_address(starts), int_address(tokens))

    def has_guesses(self, row: int) -> bool:
        """Whether a row that was looked up has any guesses."""
        found = ctypes.c_int32()
        self._call("has", self._handle, row, byref(found))
        return bool(found.value)

    def shares(self, row: int, path: int) -> dict[int, float]:
        """Return token -> chance after a path of a row, 0 the empty one."""
        tokens, shares, count = (ctypes.c_int32 * MOST_SHARES)(), (ctypes.c_double * MOST_SHARES)(), ctypes.c_int64()
        self._call("shares", self._handle, row, path, tokens, shares, byref(count))
        return dict(zip(tokens[: count.value], shares[: count.value], strict=True))

    def descend(self, row: int, path: int, token: int) -> int:
        """Return the path one token further."""
        below = ctypes.c_int64()
        self._call("descend", self._handle, row, path, token, byref(below))
        return below.value

    def source_of(self, row: int, path: int, token: int) -> int:
        """Return the bits of the sources that named a token after a path."""
        bits = ctypes.c_uint32()
        self._call("source_of", self._handle, row, path, token, byref(bits))
        return bits.value

    def _call(self, name: str, *arguments: object) -> None:
        error = ErrorStruct()
        code = getattr(self._functions, f"paradraft_guesser_{name}")(*arguments, byref(error))
        if code:
            check(code, error)

    def _room_for(self, num_rows: int, num_nodes: int) -> _Room:
        if num_rows > self._room.num_rows or num_nodes > self._room.num_nodes:
            self._room = _Room(max(num_rows, self._room.num_rows), max(num_nodes, self._room.num_nodes))
        return self._room


class _Room:
    """Memory that drafts are written to, used again from call to call."""

    def __init__(self, num_rows: int, num_nodes: int) -> None:
        self.num_rows, self.num_nodes = num_rows, num_nodes
        self._starts = np.zeros(num_rows + 1, dtype=np.int32)
        self._nodes = np.zeros((4, num_nodes), dtype=np.int32)
        self._confidence, self._expected = np.zeros(num_nodes), np.zeros(num_rows)
        columns = [address(column) for column in self._nodes]
        self.struct = DraftsStruct(
            num_nodes, address(self._starts), *columns, address(self._confidence), address(self._expected)
        )

    def drafts(self, num_rows: int) -> Drafts:
        """Return copies of what was written."""
        count = int(self._starts[num_rows])
        return Drafts(
            self._starts[: num_rows + 1].copy(),
            self._nodes[:, :count].copy(),
            self._confidence[:count].copy(),
            self._expected[:num_rows].copy(),
        )
