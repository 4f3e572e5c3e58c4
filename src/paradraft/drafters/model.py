"""A small language model as drafter: it has pages of its own and reads along behind the target.

A chain of depth K takes K passes of one token; a tree grows level by level, resubmitted to its own target as the
nodes of a proposal. All rows draft together, one pass per level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paradraft.core.arrays import IntArray, ints, join, starts_of
from paradraft.core.errors import ConfigError
from paradraft.core.ports import Needs, Scores, Target
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.candidates import DraftHeat, RaceNoise
from paradraft.drafters.draft import Draft, proposal_of
from paradraft.drafters.model_draft import DraftTerms, ModelDraft, laws_of
from paradraft.drafters.model_row import Feed, ModelRow, SameText, TextView
from paradraft.drafters.retokenise import Encoder, MappedText
from paradraft.drafters.rows import RowStates, is_drafting
from paradraft.drafters.vocabulary import NO_ID, VocabularyMap
from paradraft.kv.pages import PageCache
from paradraft.kv.records import Moves
from paradraft.verify.noise import GumbelNoise

PLAIN_HEAT = DraftHeat()
LAZY = 64  # tokens that a row which may not draft yet falls behind before it is fed


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelDrafterOptions:
    """How a draft model drafts.

    branching: children per node by level, () for a chain as deep as the plan allows. is_sampled: draw nodes from the
    laws that are reported (for sampling rules) instead of following the target's noise (for the coupled rule).
    min_confidence: a path ends where its estimated chance to stand falls below; not with is_sampled, since drawn nodes
    must not decide on drafts. max_step_tokens: most tokens fed in one step to catch up with the text.
    """

    branching: tuple[int, ...] = ()
    is_sampled: bool = False
    heat: DraftHeat = PLAIN_HEAT
    min_confidence: float = 0.0
    max_step_tokens: int = 512

    def __post_init__(self) -> None:
        """Check ranges."""
        if any(width < 1 for width in self.branching):
            raise ConfigError(
                f"branching={self.branching} is not allowed.", remedy="Use whole numbers from 1, one per level."
            )
        if self.is_sampled and self.min_confidence > 0.0:
            raise ConfigError(
                f"min_confidence={self.min_confidence} would end sampled drafts by what was drawn.",
                remedy="Set it to 0 for sampling rules.",
            )


class ModelDrafter:
    """Drafts with a model behind the target's port; a mapping lets it have another vocabulary than the target."""

    def __init__(
        self,
        *,
        target: Target,
        pages: PageCache,
        vocab_size: int,
        mapping: VocabularyMap | None = None,
        options: ModelDrafterOptions | None = None,
        noise: Callable[[int, int], RaceNoise] = GumbelNoise,
        source: str = "model",
    ) -> None:
        """Draft with `target`, whose cache `pages` keeps the books of, for a target with vocab_size ids."""
        self._target = target
        self._pages = pages
        self._options = options or ModelDrafterOptions()
        self._noise = noise
        self._mapped = None if mapping is None else (mapping, Encoder(mapping.draft, mapping.draft_pieces))
        self._to_target = _id_map(target.limits.vocab_size, vocab_size, mapping)
        self._rows = RowStates(self._new_row, lambda row: row.lease.close())
        limits = target.limits
        self.needs = Needs(
            sources=(source,),
            is_sampled=self._options.is_sampled,
            extra_bytes=limits.weight_bytes + limits.num_pages * limits.page_size * limits.bytes_per_token,
        )

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Catch up with the rows' texts and return a path or tree for each row that is up to date."""
        rows = [self._rows.of(batch, index) if is_drafting(batch, index) else None for index in range(batch.num_rows)]
        self._read_along(rows, batch)
        drafts = [None if row is None else self._draft_of(row, index, batch, plan) for index, row in enumerate(rows)]
        self._catch_up(drafts, batch)
        while growing := [draft for draft in drafts if draft is not None and draft.can_grow]:
            scores = self._pass([draft.feed() for draft in growing], batch)
            for place, draft in enumerate(growing):
                draft.note_fed()
                draft.expand(scores, int(scores.starts[place]))
        self._pages.note_step()
        proposal = proposal_of([Draft() if draft is None else draft.draft for draft in drafts])
        laws = laws_of(drafts)
        return proposal if laws is None else replace(proposal, laws=laws, confidence=None)

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        """Learn nothing: the next propose sees in the text what became of the drafts."""

    def forget(self, rows: IntArray) -> None:
        """Give the rows' pages back."""
        self._rows.forget(rows)

    def _new_row(self, batch: Batch, index: int) -> ModelRow:
        text: TextView = SameText() if self._mapped is None else MappedText(*self._mapped)
        text.follow(batch.history[index])
        lease = self._pages.open(text.ids[: max(text.num_stable, 1)], salt=batch.sampling[index].tenant)
        return ModelRow(text=text, lease=lease)

    def _read_along(self, rows: Sequence[ModelRow | None], batch: Batch) -> None:
        """Read the rows' texts, and keep of the last drafts what has become text."""
        moves: list[Moves] = []
        for index, row in enumerate(rows):
            if row is not None:
                row.text.follow(batch.history[index])
                moves.append(row.settle())
        if any(len(move) for move in moves):
            self._target.move(join([move.sources for move in moves]), join([move.destinations for move in moves]))

    def _draft_of(self, row: ModelRow, index: int, batch: Batch, plan: Plan) -> ModelDraft:
        options, sampling = self._options, batch.sampling[index]
        depth, nodes = int(plan.depth[index]), int(plan.num_nodes[index])
        if options.branching:
            depth = min(depth, len(options.branching))
        depth = max(min(depth, self._target.limits.max_positions - len(row.text.ids)), 0)
        terms = DraftTerms(
            nodes=nodes if depth else 0,
            depth=depth if nodes else 0,
            branching=options.branching,
            is_sampled=options.is_sampled,
            min_confidence=options.min_confidence,
            heat=options.heat,
            to_target=self._to_target,
            params=sampling.params,
            start=len(batch.known(index)),
        )
        return ModelDraft(row=row, index=index, terms=terms, noise=self._noise(sampling.seed, sampling.choice))

    def _catch_up(self, drafts: Sequence[ModelDraft | None], batch: Batch) -> None:
        """Feed what the cache lacks, within a step's budget, drafting rows first; sprout the rows that are complete."""
        fed: list[tuple[ModelDraft, Feed]] = []
        budget = self._options.max_step_tokens
        for draft in sorted([draft for draft in drafts if draft is not None], key=lambda draft: not draft.terms.nodes):
            chunk = self._chunk(draft, budget)
            if chunk:
                budget -= chunk
                fed.append((draft, draft.first_feed(chunk)))
        # Rows that may not draft now wait until there is a pass anyway, or enough to feed.
        if all(draft.terms.nodes == 0 and draft.row.backlog <= LAZY for draft, _ in fed):
            return
        fed = [pair for pair in fed if pair[0].stage(len(pair[1].pending))]
        if not fed:
            return
        scores = self._pass([feed for _, feed in fed], batch)
        for place, (draft, feed) in enumerate(fed):
            draft.row.written += feed.pending.tolist()
            if feed.num_scored:
                draft.sprout(scores, int(scores.starts[place]))

    def _chunk(self, draft: ModelDraft, budget: int) -> int:
        ids, backlog = draft.row.text.ids, draft.row.backlog
        return min(backlog, budget) if len(ids) <= self._target.limits.max_positions else 0

    def _pass(self, feeds: Sequence[Feed], batch: Batch) -> Scores:
        """Run the draft model over what rows feed."""
        tables = [feed.row.lease.page_table for feed in feeds]
        own = Batch(
            rows=ints([int(batch.rows[feed.index]) for feed in feeds]),
            starts=starts_of([len(feed.pending) for feed in feeds]),
            tokens=join([feed.pending for feed in feeds]),
            context_len=ints([feed.context_len for feed in feeds]),
            num_scored=ints([feed.num_scored for feed in feeds]),
            page_starts=starts_of([len(table) for table in tables]),
            pages=join(tables),
            page_size=self._pages.page_size,
            history=tuple(feed.history for feed in feeds),
            sampling=tuple(batch.sampling[feed.index] for feed in feeds),
        )
        nodes = join([feed.nodes for feed in feeds])
        tree = Proposal(
            starts=starts_of([len(feed.nodes) for feed in feeds]),
            tokens=nodes,
            parents=join([feed.parents for feed in feeds]),
            depths=join([feed.depths for feed in feeds]),
            sources=np.ones(len(nodes), dtype=np.uint32),
        )
        return self._target.submit(own, tree).wait()


def _id_map(draft_size: int, target_size: int, mapping: VocabularyMap | None) -> IntArray:
    """Return the target's id of each draft id, NO_ID where there is none."""
    ids = np.full(draft_size, NO_ID, dtype=np.int32)
    if mapping is None:
        shared = min(draft_size, target_size)
        ids[:shared] = np.arange(shared)
    else:
        shared = min(draft_size, len(mapping.to_target))
        ids[:shared] = mapping.to_target[:shared]
        ids[ids >= target_size] = NO_ID
    return ids
