"""The frozen records that travel between the five verbs of a step (engine/step.py).

Legend: R rows of this step, P pending tokens, N draft nodes, S scored positions, V vocabulary. Ragged
arrays come with `starts` [R+1]. A *pending* token is known but its keys and values are not cached yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np

from paradraft.core.arrays import DoubleArray, FloatArray, IntArray, MaskArray, ints, starts_of
from paradraft.core.sampling import SamplingParams


class Origin(IntEnum):
    """Where a committed token came from."""

    PLAIN = 0  # no draft was on the table
    DRAFTED = 1  # a draft node that the rule accepted
    RECOVERED = 2  # drawn after a rejection
    BONUS = 3  # drawn after a fully accepted path


class FinishReason(StrEnum):
    """Why a request ended. Every request ends with exactly one of these."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"
    CONTENT_FILTER = "content_filter"  # a server's output filter ended it


class Hindrance(StrEnum):
    """Why a decoding row has no draft in a step."""

    OFF = "off"  # nothing drafts here
    REQUEST = "request"  # it asked for plain decoding
    LIMIT = "limit"  # its next token is its last one
    LOAD = "load"  # the tokens of the step are needed for what is sure
    PAGES = "pages"  # the cache has no room for a draft
    UNPROFITABLE = "unprofitable"  # at its acceptance and the measured costs no draft pays
    LOSING = "losing"  # its drafts cost more than they brought
    NO_GUESS = "no_guess"  # the drafter had none, or none that a grammar allows and that is worth verifying
    FAULT = "drafter_fault"  # the drafter failed
    RESTING = "drafter_resting"  # the drafter failed too often and is left out for a while


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Plan:
    """Which rows run in this step, how many known tokens each feeds and how many draft nodes each may get."""

    rows: IntArray  # [R] permanent row numbers
    num_pending: IntArray  # [R] at least 1
    num_nodes: IntArray  # [R] node budget, 0 for plain decoding and prefill
    depth: IntArray  # [R] longest draft path (gamma), at most num_nodes
    reasons: tuple[str, ...]  # [R] why, in a few words
    hindrances: tuple[Hindrance | None, ...] = ()  # [R] of rows that get no nodes; None for prompts too
    node_cost: float = 0.05  # what one node more adds to the pass, as a share of the pass without drafts
    draft_cost: float = 0.0  # what the first node of all adds besides


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSampling:
    """What verification needs to know of a row besides its tokens."""

    params: SamplingParams
    seed: int  # 0 .. 2**64-1
    choice: int  # which of the request's n choices
    prompt_len: int
    stop_ids: tuple[int, ...]  # end-of-sequence ids (none under ignore_eos) and the caller's stop ids
    tenant: str = ""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Batch:
    """The rows of one step with everything the target and the drafters may read.

    `history[r]` is a read-only view of every token known of row r: prompt and committed ones. Its first
    `context_len[r]` tokens are cached; the pending ones follow at positions context_len[r] and up.
    Logits are wanted at the last `num_scored[r]` pending tokens (0 in a middle chunk of a prompt) and
    at every draft node. Draft node i of a row is written to the slot at context_len + num_pending + i of
    the row's page table, its position is that of its depth.
    """

    rows: IntArray  # [R]
    starts: IntArray  # [R+1] into tokens
    tokens: IntArray  # [P]
    context_len: IntArray  # [R]
    num_scored: IntArray  # [R]
    page_starts: IntArray  # [R+1] into pages
    pages: IntArray  # page numbers; slot of logical index x is pages[x // page_size] * page_size + x % page_size
    page_size: int
    history: tuple[IntArray, ...]  # R views
    sampling: tuple[RowSampling, ...]  # R

    @property
    def num_rows(self) -> int:
        """Return R."""
        return len(self.rows)

    @property
    def num_pending(self) -> IntArray:
        """Return the number of pending tokens of each row, [R]."""
        return self.starts[1:] - self.starts[:-1]

    def pending_len(self, index: int) -> int:
        """Return the number of pending tokens of the row at this index of the batch."""
        return int(self.starts[index + 1] - self.starts[index])

    def pending(self, index: int) -> IntArray:
        """Return the pending tokens of the row at this index of the batch."""
        return self.tokens[self.starts[index] : self.starts[index + 1]]

    def page_table(self, index: int) -> IntArray:
        """Return the page numbers of the row at this index of the batch."""
        return self.pages[self.page_starts[index] : self.page_starts[index + 1]]

    def is_complete(self, index: int) -> bool:
        """Whether the row's pending tokens reach its last known one, so that its next token can be chosen."""
        return int(self.context_len[index]) + self.pending_len(index) == len(self.history[index])

    def known(self, index: int) -> IntArray:
        """Return the row's tokens up to and including its last pending one."""
        return self.history[index][: int(self.context_len[index]) + self.pending_len(index)]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DraftLaws:
    """The distributions that draft nodes were really drawn from, sparse; only sampling rules read them.

    Node i was drawn from law `of[i]` (-1: chosen deterministically). Law k gives `ids` and `probabilities`
    from starts[k] to starts[k+1]. Siblings drawn without replacement name the same law, in drawing order.
    """

    of: IntArray  # [N]
    starts: IntArray  # [number of laws + 1]
    ids: IntArray
    probabilities: DoubleArray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Proposal:
    """A token tree per row. Within a row parents come before children and siblings differ in token.

    `confidence` is the drafter's estimate that a node is accepted, all its ancestors included, so it never
    rises from a parent to its child; None where the drafter has no estimate. Only length policies read it. Beside laws
    it must depend on nothing drawn at the node or behind it, or a length chosen by it would bend the output's law.
    """

    starts: IntArray  # [R+1] into the node arrays
    tokens: IntArray  # [N]
    parents: IntArray  # [N] index within the row; -1: the row's last pending token
    depths: IntArray  # [N] 1 for children of the last pending token
    sources: MaskArray  # [N] bit b set: source b of the drafter proposed this node
    laws: DraftLaws | None = None
    confidence: FloatArray | None = None  # [N] 0 .. 1

    @property
    def num_nodes(self) -> IntArray:
        """Return the number of nodes of each row, [R]."""
        return self.starts[1:] - self.starts[:-1]

    def is_chain(self, index: int) -> bool:
        """Whether the row's nodes form one path in order."""
        low, high = int(self.starts[index]), int(self.starts[index + 1])
        return bool((self.parents[low:high] == np.arange(-1, high - low - 1)).all())

    @staticmethod
    def empty(num_rows: int) -> Proposal:
        """Return the proposal of plain decoding: no nodes for any row."""
        return Proposal.chains([ints([])] * num_rows)

    @staticmethod
    def chains(tokens: list[IntArray], *, source: int = 0, laws: DraftLaws | None = None) -> Proposal:
        """Return one path per row, all of one source."""
        starts = starts_of([len(path) for path in tokens])
        total = int(starts[-1])
        order = [np.arange(len(path), dtype=np.int32) for path in tokens]
        index = np.concatenate(order) if order else ints([])
        return Proposal(
            starts=starts,
            tokens=ints(np.concatenate(tokens)) if tokens else ints([]),
            parents=ints(index - 1),
            depths=ints(index + 1),
            sources=np.full(total, 1 << source, dtype=np.uint32),
            laws=laws,
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Verdict:
    """What the rule decided: per row the accepted path and the tokens to commit.

    A complete row (Batch.is_complete) gets its accepted nodes' tokens and one token more; others get none.
    """

    path_starts: IntArray  # [R+1] into path
    path: IntArray  # accepted nodes in order, index within the row
    token_starts: IntArray  # [R+1] into tokens and origins
    tokens: IntArray
    origins: IntArray  # Origin of each token
    failures: tuple[tuple[int, str], ...] = ()  # (index, why) of rows whose logits cannot be used; they get no tokens

    def path_of(self, index: int) -> IntArray:
        """Return the accepted nodes of the row at this index."""
        return self.path[self.path_starts[index] : self.path_starts[index + 1]]

    def tokens_of(self, index: int) -> IntArray:
        """Return the tokens to commit for the row at this index."""
        return self.tokens[self.token_starts[index] : self.token_starts[index + 1]]

    def origins_of(self, index: int) -> IntArray:
        """Return the Origin of each token of the row at this index."""
        return self.origins[self.token_starts[index] : self.token_starts[index + 1]]
