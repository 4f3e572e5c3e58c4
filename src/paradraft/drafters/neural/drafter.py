"""A drafting network as drafter: it reads the target's hidden states and drafts several tokens in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paradraft.core.arrays import IntArray
from paradraft.core.ports import Needs, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.candidates import RaceNoise
from paradraft.drafters.coupling import Coupling, coupling_of
from paradraft.drafters.draft import Draft, price_of, proposal_of
from paradraft.drafters.growth import Budget, grow
from paradraft.drafters.guesses import Guesses
from paradraft.drafters.model_draft import laws_of
from paradraft.drafters.neural.context import RowText, fed_places, run_round, write_context
from paradraft.drafters.neural.drawn import DrawnDraft, drawn_chain, picked
from paradraft.drafters.neural.dynamic_tree import DrawnWalk, TreeTerms, TreeWalk, run_walks
from paradraft.drafters.neural.guesses import NeuralGuesses
from paradraft.drafters.neural.options import NeuralOptions
from paradraft.drafters.neural.overlap import Overlap
from paradraft.drafters.neural.ports import Network
from paradraft.drafters.neural.rows import NeuralRow
from paradraft.drafters.rows import RowStates, is_drafting
from paradraft.drafters.trust import Trust
from paradraft.kv.pages import PageCache
from paradraft.nets.serving.rounds import DraftFeed
from paradraft.nets.serving.steps import StepNetwork
from paradraft.verify.noise import GumbelNoise

Said = NeuralGuesses | TreeWalk | DrawnWalk  # what a network says of one row

PROMPT = 16  # waiting taps from which on they are written without a draft to be made; a row that decodes has fewer


@dataclass(slots=True, eq=False)
class _Row:
    context: NeuralRow
    trust: Trust


class NeuralDrafter:
    """Drafts with a network; implements GuessingDrafter. It learns a row's context from what the target records.

    num_missing counts positions it had to go on without: the target's cache had kept them and its own had not, or its
    pages ran out. num_passed counts rows that got no draft for want of pages or positions.
    """

    def __init__(
        self,
        network: Network,
        pages: PageCache,
        *,
        options: NeuralOptions | None = None,
        noise: Callable[[int, int], RaceNoise] = GumbelNoise,
    ) -> None:
        """Draft with a network whose cache `pages` keeps the books of."""
        self._network = network
        self._pages = pages
        self._options = options or NeuralOptions()
        self._noise = noise
        self._rows = RowStates(self._new_row, self._drop)
        self._overlap = Overlap()
        self.num_passed = self._num_dropped = 0
        self.needs = Needs(
            sources=(network.name,),
            hidden_layers=network.tap_layers,
            weighs_nodes=not self._options.is_sampled,
            is_sampled=self._options.is_sampled,
            extra_bytes=network.extra_bytes,
        )

    @property
    def num_missing(self) -> int:
        """Return how many positions rows had to go on without, since the start."""
        return self._num_dropped + sum(row.context.num_missing for row in self._rows)

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return a path or tree for each row, from one pass of the network."""
        found = self._ask(batch, plan, is_drawing=self._options.is_sampled)
        drafts = [self._draft(batch, plan, index, answer) for index, answer in enumerate(found)]
        proposal = proposal_of([draft.draft for draft in drafts])
        laws = laws_of(drafts)
        return proposal if laws is None else replace(proposal, laws=laws)

    def guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        """Bring the contexts up to date and return what the network says of each row."""
        found = self._ask(batch, plan, is_drawing=False)
        return [None if isinstance(answer, DrawnWalk) else answer for answer in found]

    def _ask(self, batch: Batch, plan: Plan, *, is_drawing: bool) -> list[Said | None]:
        """Run a round of the network; is_drawing: rows that sample are to be drawn for, where that takes steps."""
        texts = {index: self._text(batch, index) for index in range(batch.num_rows) if is_drafting(batch, index)}
        self._write([text for index, text in texts.items() if plan.num_nodes[index] or text.row.num_held >= PROMPT])
        drafting = {index: text for index, text in texts.items() if plan.num_nodes[index] and self._is_ready(text)}
        self._pages.note_step()
        answers: list[Said | None] = [None] * batch.num_rows
        if not drafting:
            return answers
        found = run_round(
            self._network,
            self._pages.page_size,
            list(drafting.values()),
            lambda feed: self._said(feed, batch, plan, list(drafting), is_drawing=is_drawing),
            depth=max(int(plan.depth[index]) for index in drafting),
            num_candidates=self._num_candidates(batch, drafting),
        )
        for index, answer in zip(drafting, found, strict=True):
            answers[index] = answer
        return answers

    def _said(
        self, feed: DraftFeed, batch: Batch, plan: Plan, indices: list[int], *, is_drawing: bool
    ) -> Sequence[Said]:
        """Return what the network says of these rows: at once, or step by step along walks."""
        if isinstance(self._network, StepNetwork):
            walks = [self._walk_of(batch, plan, index, is_drawing=is_drawing) for index in indices]
            run_walks(self._network.open_round(feed), walks)
            return walks
        marginals = self._network.draft(feed)
        return [
            NeuralGuesses(
                marginals,
                place,
                int(feed.anchors[place]),
                batch.sampling[index].params,
                coupling=self._coupling(batch, index),
            )
            for place, index in enumerate(indices)
        ]

    def _walk_of(self, batch: Batch, plan: Plan, index: int, *, is_drawing: bool) -> TreeWalk | DrawnWalk:
        sampling, options = batch.sampling[index], self._options
        nodes = int(plan.num_nodes[index])
        depth = min(int(plan.depth[index]), nodes, self._network.block_size)
        if is_drawing and not sampling.params.is_greedy:
            noise = self._noise(sampling.seed, sampling.choice)
            return DrawnWalk(sampling.params, depth, noise, self._overlap, start=len(batch.known(index)))
        terms = TreeTerms(
            depth=depth,
            num_nodes=nodes,
            beam=options.width,
            floor=price_of(plan, options.node_cost).node,
            coupling=self._coupling(batch, index),
        )
        return TreeWalk(sampling.params, terms)

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        """Take the taps of all tokens that the step has made part of the rows' texts."""
        failed = {index for index, _ in verdict.failures}
        indices = [index for index in range(batch.num_rows) if is_drafting(batch, index) and index not in failed]
        if not indices:
            return
        places = [fed_places(batch, scores, verdict, index) for index in indices]
        everywhere = np.concatenate(places)
        layers = [scores.hidden(layer)[everywhere] for layer in self._network.tap_layers]
        taps = np.concatenate(layers, axis=1)
        first = 0
        for index, part in zip(indices, places, strict=True):
            row = self._rows.of(batch, index)
            row.context.follow(int(batch.context_len[index]), taps[first : first + len(part)])
            if self._options.is_sampled and not batch.sampling[index].params.is_greedy:
                self._overlap.learn(proposal, verdict, index)
            else:
                row.trust.learn(proposal, verdict, index)
            first += len(part)
        texts = [self._text(batch, index) for index in indices]
        self._write([text for text in texts if text.row.num_held >= PROMPT])

    def forget(self, rows: IntArray) -> None:
        """Give the rows' pages back; full ones stay findable for texts with the same beginning."""
        self._rows.forget(rows)

    def _new_row(self, batch: Batch, index: int) -> _Row:
        shift, history = self._network.shift, batch.history[index]
        salt = batch.sampling[index].tenant
        # A shifted entry joins its tap with the token behind it, so pages are named by the tokens behind; then the
        # first token is in no name and has to be part of the salt.
        salt += f"\x00{int(history[0])}" if shift else ""
        lease = self._pages.open(history[shift:], salt=salt)
        return _Row(context=NeuralRow(lease=lease, shift=shift), trust=Trust())

    def _drop(self, row: _Row) -> None:
        self._num_dropped += row.context.num_missing
        row.context.lease.close()

    def _text(self, batch: Batch, index: int) -> RowText:
        params = batch.sampling[index].params
        return RowText(
            row=self._rows.of(batch, index).context,
            history=batch.history[index],
            temperature=1.0 if params.is_greedy else params.temperature,
        )

    def _write(self, texts: list[RowText]) -> None:
        write_context(self._network, self._pages.page_size, texts)

    def _is_ready(self, text: RowText) -> bool:
        """Set the round's scratch slots aside; False where the row cannot draft."""
        num_scratch = self._network.block_size + 1
        has_room = 0 <= text.anchor_entry <= self._network.max_positions - num_scratch
        is_ready = has_room and text.row.stage(num_scratch)
        self.num_passed += not is_ready
        return is_ready

    def _num_candidates(self, batch: Batch, indices: Iterable[int]) -> int:
        is_warm = any(not batch.sampling[index].params.is_greedy for index in indices)
        return self._options.num_warm_candidates if is_warm else self._options.num_candidates

    def _coupling(self, batch: Batch, index: int) -> Coupling | None:
        return coupling_of(batch, index) if self._options.is_coupled and not self._options.is_sampled else None

    def _draft(self, batch: Batch, plan: Plan, index: int, said: Said | None) -> DrawnDraft:
        if said is None:
            return picked(Draft())
        if isinstance(said, DrawnWalk):
            return said.drawn
        sampling, options = batch.sampling[index], self._options
        nodes, depth = int(plan.num_nodes[index]), int(plan.depth[index])
        if isinstance(said, NeuralGuesses) and options.is_sampled and not sampling.params.is_greedy:
            noise = self._noise(sampling.seed, sampling.choice)
            return drawn_chain(said, min(depth, nodes), noise, self._overlap, start=len(batch.known(index)))
        budget = Budget(nodes, depth, options.width, price_of(plan, options.node_cost))
        trust = self._rows.of(batch, index).trust.use()
        return picked(grow(said, budget, self._coupling(batch, index), trust=trust))
