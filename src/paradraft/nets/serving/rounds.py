"""What travels between a drafting network and its drafter in one round: numbers in, numbers out, no tensors.

Legend: R rows, n context entries, m tapped layers, d hidden size, K drafted tokens, C candidates per draft.

A row's context is a list of entries. Entry j of an unshifted network stands for token j of the text and its tap; of a
shifted one (EAGLE) for the tap of token j joined with token j + 1. The anchor is the last known token, at index s of
the text: the target has not read it yet, so it has no tap. Drafting sees entries below s - shift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from paradraft.core.arrays import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ContextFeed:
    """Entries to add to the rows' contexts. Part r of the ragged arrays belongs to row r."""

    starts: IntArray  # [R+1] into the entries
    tokens: IntArray  # [n] token j + shift of the text
    taps: FloatArray  # [n, m * d] of token j, layers side by side in the order of tap_layers
    positions: IntArray  # [n] j
    slots: IntArray  # [n] cache slots to write
    context_starts: IntArray  # [R+1] into context_slots
    context_slots: IntArray  # the slots of each row's earlier entries, in order


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DraftFeed:
    """Rows to draft for. Each has block_size + 1 scratch slots behind its context; their content is not kept."""

    anchors: IntArray  # [R] tokens
    positions: IntArray  # [R] s - shift
    taps: FloatArray  # [R, m * d] of the token before the anchor, zeros if there is none; for shifted networks
    temperatures: FloatArray  # [R] above 0
    context_starts: IntArray  # [R+1] into context_slots
    context_slots: IntArray  # the slots of each row's entries, in order
    scratch_starts: IntArray  # [R+1] into scratch_slots
    scratch_slots: IntArray
    depth: int  # most drafts that any row can use; a network may always make block_size
    num_candidates: int  # C, wanted per draft; a smaller draft vocabulary gives fewer


class Correction(Protocol):
    """What the token before adds to the candidates' logits, for one round."""

    def bias(self, row: int, slot: int, previous: int) -> FloatArray:
        """Return what to add to the logits of the slot's candidates, [C], if `previous` (a target id) comes before."""
        ...


class Confidence(Protocol):
    """How sure the network is of its drafts, for one round."""

    def chance(self, row: int, slot: int, previous: int) -> float:
        """Return the estimated chance that the slot's best draft stands if `previous` comes before and stood."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Marginals:
    """What the network says about each of the K next tokens, K at most block_size.

    Slot k is the token k + 1 behind the anchor. Its law is a softmax over the draft vocabulary; only the best
    candidates are named, best first. Drafted chains (EAGLE) are made by feeding the best candidate back.
    """

    ids: IntArray  # [R, K, C] target ids
    logits: FloatArray  # [R, K, C] falling, before the correction and not divided by the temperature
    log_total: FloatArray  # [R, K] log of the sum over the draft vocabulary of exp(logit / temperature)
    correction: Correction | None = None
    confidence: Confidence | None = None
