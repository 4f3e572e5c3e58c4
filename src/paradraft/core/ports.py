"""The seams of the house. Everything above sees these protocols, never the class behind one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from paradraft.core.arrays import DoubleArray, FloatArray, IntArray
from paradraft.core.records import Batch, Plan, Proposal, RowSampling, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a target can take and what it is, as data."""

    name: str
    runner: str  # which code path serves it, for the start-up line
    dtype: str
    vocab_size: int
    num_layers: int
    hidden_size: int
    max_positions: int
    num_pages: int
    page_size: int
    bytes_per_token: int  # key-value cache
    weight_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What a drafter asks of the engine, as data; nothing branches on a method's name."""

    sources: tuple[str, ...]  # names of the bits in Proposal.sources
    hidden_layers: tuple[int, ...] = ()  # taps: -1 the embedding, i the output of decoder layer i (from 0)
    entropy_layers: tuple[int, ...] = ()  # attention entropy per head of these layers
    weighs_nodes: bool = False  # ends its drafts by itself where a node is not worth Plan.node_cost
    is_sampled: bool = False  # draws nodes from the laws it reports, so a sampling rule can use them
    extra_bytes: int = 0  # weights and caches of its own


class Scores(Protocol):
    """Logits and taps of one pass. Valid until the next submit to the same target.

    Scored positions of row r are starts[r] .. starts[r+1]: its last num_scored pending tokens, then its nodes.
    Fed tokens of row r are fed_starts[r] .. fed_starts[r+1]: all its pending tokens, then its nodes.
    """

    starts: IntArray  # [R+1]
    fed_starts: IntArray  # [R+1]

    def argmax(self) -> IntArray:
        """Return the id of the largest logit at each scored position, the lowest id on ties, [S]."""
        ...

    def row(self, index: int) -> FloatArray:
        """Return the fp32 logits at a scored position, [V], not to be written to."""
        ...

    def top(self, index: int, count: int) -> tuple[IntArray, FloatArray]:
        """Return the ids and logits of the largest `count` at a scored position, by (-logit, id)."""
        ...

    def hidden(self, layer: int) -> FloatArray:
        """Return a tap at every fed token, [pending + nodes, hidden size]."""
        ...

    def attention_entropy(self, layer: int) -> FloatArray:
        """Return the entropy in nats of each head's attention at every fed token, [pending + nodes, heads]."""
        ...


class Ticket(Protocol):
    """A pass under way."""

    def wait(self) -> Scores:
        """Block until the pass has ended and return its scores."""
        ...


class Target(Protocol):
    """A model that scores pending tokens and draft nodes on top of its paged key-value cache."""

    limits: Limits

    def submit(self, batch: Batch, proposal: Proposal) -> Ticket:
        """Start a pass. It writes the cache slots of the pending tokens and nodes, and no others.

        Feeding a pending token again, at the same place, writes the same values again.
        """
        ...

    def move(self, sources: IntArray, destinations: IntArray) -> None:
        """Copy cache slots (page * page_size + offset); all are read before any is written."""
        ...

    def close(self) -> None:
        """Free the memory. The target cannot be used afterwards."""
        ...


@runtime_checkable
class LayeredTarget(Target, Protocol):
    """A target whose first layers can be run by themselves."""

    def first_layers(self, count: int, *, num_pages: int, page_size: int) -> Target:
        """Return a target with a cache of its own that stops behind `count` layers and shares this one's weights.

        Raises ConfigError unless count leaves some layers out.
        """
        ...


class Drafter(Protocol):
    """Guesses the tokens to come. A drafter may be wrong, slow or broken: only its drafts are lost.

    The plan's budgets are upper bounds: at most num_nodes[r] nodes and depth[r] levels for row r, none where
    num_nodes is 0. Ids are the target's.
    """

    needs: Needs

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return a tree for each row; no nodes where it has no guess. Changes only its own state."""
        ...

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        """Learn what became of the step, prefill and plain steps included."""
        ...

    def forget(self, rows: IntArray) -> None:
        """Drop the state of rows that ended or were preempted; the row numbers will be used again."""
        ...


class Noise(Protocol):
    """All randomness of one decision, keyed by seed, choice and position; rules draw through nothing else.

    `stream` keeps independent draws at one position apart.
    """

    def flip(self, probability: float, *, position: int, stream: int) -> bool:
        """Return True with this probability."""
        ...

    def choose(self, weights: DoubleArray, ids: IntArray | None, *, position: int, stream: int) -> int:
        """Return an index of weights with probability weights / sum(weights).

        ids are the tokens the weights belong to (None: 0 .. len-1). The outcome for a given key depends on
        (id, weight) pairs only, so two distributions that are alike tend to give the same token.
        """
        ...


class Chooser(Protocol):
    """Makes the target's own keyed choice from raw logits: the same one as verification's own code, only faster."""

    def choose(self, logits: FloatArray, sampling: RowSampling, position: int) -> int | None:
        """Return the token of a position, None where verification's own code must say.

        logits: raw, [V]. sampling: of a row with a temperature, and with nothing that adjusts logits before it.
        """
        ...


class Acceptor(Protocol):
    """Decides which drafts stand."""

    is_exact: bool
    name: str

    def check(self, sampling: RowSampling, vocab_size: int) -> None:
        """Raise RequestRefused for a row that this rule or vocabulary cannot serve; asked before it is queued."""
        ...

    def accept(self, batch: Batch, proposal: Proposal, scores: Scores) -> Verdict:
        """Walk each scored row's tree and return the accepted path and the next token."""
        ...


class Tokenizer(Protocol):
    """Text to ids and back."""

    vocab_size: int
    eos_ids: tuple[int, ...]
    bos_id: int | None
    chat_template: str | None  # its source

    @property
    def template_knows_tools(self) -> bool:
        """Whether there is a chat template that writes descriptions of tools."""
        ...

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """Return the ids of a text; special tokens written out in it become themselves."""
        ...

    def decode(self, ids: list[int] | IntArray, *, skip_special: bool = True) -> str:
        """Return the text of ids."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes a token stands for; special tokens give their spelling."""
        ...

    def is_special(self, token: int) -> bool:
        """Whether the token is a control token that is left out of text."""
        ...

    def spelling(self, token: int) -> str | None:
        """Return the vocabulary string of an id, None for an unused one."""
        ...

    def render_chat(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        tools: Sequence[Mapping[str, object]] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """Return the conversation as the model's chat template writes it, within bounds of time and size.

        Messages have a text `role` and a text `content`, and what else the template knows; tools are descriptions of
        functions in OpenAI's shape. Raises ModelError without a template, RequestRefused where it refuses the messages.
        """
        ...


class Clock(Protocol):
    """Seconds since some start; a test brings its own."""

    def __call__(self) -> float:
        """Return the time in seconds."""
        ...
