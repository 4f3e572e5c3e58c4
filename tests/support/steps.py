"""Single verification steps without an engine: a batch, a proposal and the scores a law gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from paradraft.core.arrays import FloatArray, ints, join, starts_of
from paradraft.core.ports import Acceptor
from paradraft.core.records import Batch, DraftLaws, Proposal, RowSampling, Verdict
from paradraft.core.sampling import SamplingParams
from paradraft.verify.law import Law as TokenLaw
from support.stub_target import Law, StubScores


@dataclass
class Draft:
    """A tree under construction: per node its token, parent and the law it was drawn from (None: deterministic)."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    laws: list[TokenLaw | None] = field(default_factory=list)

    def add(self, token: int, parent: int, law: TokenLaw | None = None) -> int:
        """Append a node and return its number."""
        self.tokens.append(token)
        self.parents.append(parent)
        self.laws.append(law)
        return len(self.tokens) - 1

    def path(self, node: int) -> tuple[int, ...]:
        """Return the tokens down to a node, () for the root."""
        return () if node < 0 else (*self.path(self.parents[node]), self.tokens[node])

    def has_child(self, parent: int, token: int) -> bool:
        """Whether the parent has a child with this token."""
        return (parent, token) in zip(self.parents, self.tokens, strict=True)


def chain(*tokens: int) -> Draft:
    """Return a deterministic path."""
    return Draft(tokens=list(tokens), parents=list(range(-1, len(tokens) - 1)), laws=[None] * len(tokens))


def proposal_of(drafts: Sequence[Draft]) -> Proposal:
    """Return the proposal with one draft per row."""
    laws = [law for draft in drafts for law in draft.laws]
    drawn = [law for law in laws if law is not None]
    numbers = iter(range(len(drawn)))
    nodes = ints([token for draft in drafts for token in draft.tokens])
    return Proposal(
        starts=starts_of([len(draft.tokens) for draft in drafts]),
        tokens=nodes,
        parents=ints([parent for draft in drafts for parent in draft.parents]),
        depths=ints([len(draft.path(node)) for draft in drafts for node in range(len(draft.tokens))]),
        sources=np.ones(len(nodes), dtype=np.uint32),
        laws=DraftLaws(
            of=ints([-1 if law is None else next(numbers) for law in laws]),
            starts=starts_of([len(law.probabilities) for law in drawn]),
            ids=join([np.arange(len(law.probabilities)) if law.ids is None else law.ids for law in drawn]),
            probabilities=np.concatenate([[], *(law.probabilities for law in drawn)]),
        )
        if drawn
        else None,
    )


def sampling_of(
    params: SamplingParams, *, prompt_len: int, seed: int = 7, choice: int = 0, stop_ids: tuple[int, ...] = ()
) -> RowSampling:
    """Return a row's sampling record."""
    return RowSampling(params=params, seed=seed, choice=choice, prompt_len=prompt_len, stop_ids=stop_ids)


def batch_of(histories: Sequence[Sequence[int]], sampling: Sequence[RowSampling], num_scored: int = 1) -> Batch:
    """Return a decoding batch: all but the last `num_scored` tokens of each history are cached."""
    count = len(histories)
    return Batch(
        rows=ints(range(count)),
        starts=starts_of([num_scored] * count),
        tokens=ints([token for history in histories for token in history[-num_scored:]]),
        context_len=ints([len(history) - num_scored for history in histories]),
        num_scored=ints([num_scored] * count),
        page_starts=starts_of([0] * count),
        pages=ints([]),
        page_size=16,
        history=tuple(ints(history) for history in histories),
        sampling=tuple(sampling),
    )


def scores_of(batch: Batch, drafts: Sequence[Draft], law: Law) -> StubScores:
    """Return what a target with this law (prefix -> logits) gives at the scored positions."""
    rows: list[FloatArray] = []
    for index, draft in enumerate(drafts):
        known = tuple(batch.known(index).tolist())
        first = len(known) - int(batch.num_scored[index])
        rows.extend(law(known[: at + 1]) for at in range(first, len(known)))
        rows.extend(law((*known, *draft.path(node))) for node in range(len(draft.tokens)))
    counts = starts_of(
        [int(scored) + len(draft.tokens) for scored, draft in zip(batch.num_scored, drafts, strict=True)]
    )
    return StubScores(rows, counts, counts)


def decide(
    acceptor: Acceptor,
    histories: Sequence[Sequence[int]],
    sampling: Sequence[RowSampling],
    drafts: Sequence[Draft],
    law: Law,
) -> Verdict:
    """Return the verdict of one step."""
    batch = batch_of(histories, sampling)
    return acceptor.accept(batch, proposal_of(drafts), scores_of(batch, drafts, law))


def decode(
    acceptor: Acceptor,
    prompt: Sequence[int],
    sampling: RowSampling,
    law: Law,
    count: int,
    draft: Callable[[tuple[int, ...]], Draft] = lambda _: Draft(),
) -> list[int]:
    """Return the first `count` tokens after the prompt, drafting anew at every step."""
    known = list(prompt)
    while len(known) < len(prompt) + count:
        verdict = decide(acceptor, [known], [sampling], [draft(tuple(known))], law)
        known.extend(verdict.tokens_of(0).tolist())
    return known[len(prompt) : len(prompt) + count]
