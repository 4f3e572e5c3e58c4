"""What the native decode core is given and gives back in a call.

Legend: R rows, T fed tokens (rows one after the other), S scored tokens, C hidden size, H query heads, V vocabulary, n
context entries, W width of an entry's taps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paradraft.core.arrays import FloatArray, IntArray, ints
from paradraft.core.errors import ProtocolError
from paradraft.native.addresses import float_address, int_address
from paradraft.native.structs import EntriesStruct, PassStruct

NOTHING: IntArray = ints([])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SummaryTerms:
    """What a pass is to say of the logits of each scored token in short."""

    num_candidates: int  # at most V
    temperatures: FloatArray  # [S] above 0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PassInput:
    """The tokens of one pass and what each sees: its row's context, its ancestors and itself. Whole numbers are int32.

    Instead of tokens, states may enter the first layer, and instead of some or all of these the lines of taps. A pass
    that sees both ways has no parents: each token sees its row's context and all fed tokens of its row.
    """

    row_starts: IntArray  # [R+1] into the fed tokens; rows may be empty
    tokens: IntArray = field(default_factory=lambda: NOTHING)  # [T]; not read with states or if all are tapped
    positions: IntArray  # [T]
    slots: IntArray  # [T] where keys and values are written
    # [T] index of the token before within the row's fed tokens; -1: the row's context; not read if it sees both ways
    parents: IntArray = field(default_factory=lambda: NOTHING)
    context_starts: IntArray  # [R+1] into context_slots
    context_slots: IntArray  # slots of each row's tokens before the pass, in logical order
    scored: IntArray  # [S] indices into the fed tokens
    hidden_layers: IntArray = field(default_factory=lambda: NOTHING)  # taps: -1 embedding, i the output of layer i
    entropy_layers: IntArray = field(default_factory=lambda: NOTHING)
    states: FloatArray | None = None  # [T, C] what enters the first layer; None: the embeddings of tokens
    sides: FloatArray | None = None  # [T, C] what layers with a side_norm read beside the states
    tapped: IntArray = field(default_factory=lambda: NOTHING)  # fed tokens, ascending, whose taps enter instead
    taps: FloatArray | None = None  # [len(tapped), W] of these
    sees_both_ways: bool = False
    wants_normed: bool = False
    summary: SummaryTerms | None = None

    def struct(self, hidden_size: int, taps_width: int) -> PassStruct:
        """Return what the library reads of a model of sizes C and W; it points into these arrays.

        Raises ProtocolError for parts that misfit.
        """
        counts = {len(part) for part in self._parts()}
        if len(counts) != 1 or len(self.row_starts) != len(self.context_starts) or not len(self.row_starts):
            raise ProtocolError(
                f"A pass of {len(self.row_starts) - 1} rows has parts of different lengths: {sorted(counts)} tokens, "
                f"{len(self.context_starts) - 1} contexts.",
                remedy="Give one position, slot and parent per token, and one context per row.",
            )
        if self.context_starts[-1] != len(self.context_slots):
            raise ProtocolError(
                f"{len(self.context_slots)} context slots were given, and starts for {self.context_starts[-1]}.",
                remedy="Make the last of context_starts the number of context_slots.",
            )
        shape = (len(self.positions), hidden_size)
        return PassStruct(
            num_rows=len(self.row_starts) - 1,
            num_tokens=len(self.positions),
            num_scored=len(self.scored),
            num_hidden_layers=len(self.hidden_layers),
            num_entropy_layers=len(self.entropy_layers),
            states=None if self.states is None else float_address(self.states, *shape),
            sides=None if self.sides is None else float_address(self.sides, *shape),
            num_tapped=len(self.tapped),
            taps=None if self.taps is None else float_address(self.taps, len(self.tapped), taps_width),
            temperatures=None if self.summary is None else float_address(self.summary.temperatures, len(self.scored)),
            num_candidates=0 if self.summary is None else self.summary.num_candidates,
            sees_both_ways=int(self.sees_both_ways),
            **{name: int_address(getattr(self, name)) for name in _INT_FIELDS},
        )

    def _parts(self) -> tuple[IntArray, ...]:
        """Return what has one number per fed token."""
        is_read = self.states is None and len(self.tapped) < len(self.positions)
        tokens = (self.tokens,) if is_read else ()
        parents = () if self.sees_both_ways else (self.parents,)
        return (self.positions, self.slots, *tokens, *parents)


_INT_FIELDS = (
    *("row_starts", "tokens", "positions", "slots", "parents", "context_starts", "context_slots", "scored"),
    *("hidden_layers", "entropy_layers", "tapped"),
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ContextEntries:
    """Entries of contexts, each made of the taps of a token of another model."""

    taps: FloatArray  # [n, W]
    positions: IntArray  # [n]
    slots: IntArray  # [n] where keys and values are written

    def struct(self, width: int) -> EntriesStruct:
        """Return what the library reads; it points into these arrays. Raises ProtocolError for parts that misfit."""
        if len(self.slots) != len(self.positions):
            raise ProtocolError(
                f"{len(self.positions)} context entries have {len(self.slots)} slots.",
                remedy="Give one position and slot per entry.",
            )
        return EntriesStruct(
            num_entries=len(self.positions),
            taps=float_address(self.taps, len(self.positions), width),
            positions=int_address(self.positions),
            slots=int_address(self.slots),
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Summary:
    """The logits of each scored token in short."""

    candidates: IntArray  # [S, num_candidates] ids of the largest, by (-logit, id)
    logits: FloatArray  # [S, num_candidates] of them
    log_totals: FloatArray  # [S] log of the sum over the vocabulary of exp(logit / temperature)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PassOutput:
    """What a pass leaves behind. The arrays are valid until the executor's next run."""

    logits: FloatArray  # [S, V]
    best: IntArray  # [S] ids of the largest logits, the lowest on ties; not-a-number counts as the largest
    hidden: Mapping[int, FloatArray]  # by layer, [T, C]
    entropies: Mapping[int, FloatArray]  # by layer, [T, H], nats
    normed: FloatArray | None = None  # [S, C] what the head read, if it was wanted
    summary: Summary | None = None
