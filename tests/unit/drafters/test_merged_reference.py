"""Merged trees against the definition written out: blend by the formula, take the likeliest nodes, ask in hope."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from paradraft.core.arrays import ints
from paradraft.core.records import Batch, Plan, Proposal
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.blend import FAINTEST, LEAST_REST, LIFTED
from paradraft.drafters.coupling import Coupling
from paradraft.drafters.growth import HOPE
from paradraft.drafters.guesses import Guesses, GuessingDrafter
from paradraft.drafters.merged import MergedDrafter
from paradraft.drafters.priors import DEPTHS, Weights
from paradraft.drafters.suffix import SuffixDrafter
from paradraft.drafters.table.count import CountedText, count_table
from paradraft.drafters.table.drafter import TableDrafter
from paradraft.drafters.table.recent import RecentDrafter
from paradraft.drafters.trust import CEILING
from support.drafting import RowText, batch_for, forget_all, plan_for, verdict_of

FIXTURE = Path(__file__).parents[2] / "fixtures" / "recorded_answers.json"
VOCAB, WIDTH = 49152, 8
Path_ = tuple[int, ...]


def law(told: list[dict[int, float]], weights: Weights, depth: int, noise: Coupling | None) -> dict[int, float]:
    """Return the blended law as the formula in blend.py reads."""
    faintest = FAINTEST
    if noise is not None:
        told = [{token: p for token, p in said.items() if is_worth_naming(p, token, depth, noise)} for said in told]
        faintest = 0.0
    rests = [math.log(max(1.0 - sum(said.values()), LEAST_REST)) for said in told]
    named = [{token: p for token, p in said.items() if p >= faintest} for said in told]
    both = list(zip(weights.sources, told, named, rests, strict=True))
    scores = {}
    for token in dict.fromkeys(token for said in named for token in said):  # among equals the first named
        scores[token] = sum(
            source.hit_slope * math.log(said[token]) + source.hit
            if token in said
            else source.miss_slope * rest + source.miss
            for source, whole, said, rest in both
            if whole
        )
        if noise is not None:
            scores[token] += weights.noise * noise.gumbel([token], depth)[0]
    none = weights.depth[min(depth, DEPTHS - 1)]
    none += sum(source.rest_slope * rest if whole else source.silent for source, whole, _, rest in both)
    total = math.exp(none) + sum(math.exp(score) for score in scores.values())
    return {token: math.exp(score) / total for token, score in scores.items()}


def is_worth_naming(share: float, token: int, depth: int, noise: Coupling) -> bool:
    return share >= FAINTEST or share * math.exp(noise.gumbel([token], depth)[0]) >= LIFTED


def told_after(source: Guesses | None, path: Path_) -> dict[int, float]:
    state = None if source is None else source.root()
    for token in path:
        state = None if source is None or state is None else source.descend(state, token)
    return {} if source is None or state is None else source.shares(state)


def reference(sources: list[Guesses | None], weights: Weights, nodes: int, depth: int, noise: Coupling | None):
    """Return the tree as {path: confidence}, in the order in which the nodes are taken."""
    tree: dict[Path_, float] = {}
    offers: dict[tuple[Path_, bool], float] = {((), True): 1.0}  # a node, or (True) the place below one
    while offers and len(tree) < nodes:
        (path, is_place), worth = max(offers.items(), key=lambda offer: offer[1])
        del offers[path, is_place]
        if not is_place:
            tree[path] = worth
            if len(path) < depth:
                offers[path, True] = HOPE * worth
            continue
        shares = law([told_after(source, path) for source in sources], weights, len(path), noise)
        for token in sorted(shares, key=shares.__getitem__, reverse=True)[:WIDTH]:
            offers[(*path, token), False] = tree.get(path, 1.0) * min(shares[token], CEILING)
    return tree


def tree_of(proposal: Proposal) -> dict[Path_, float]:
    assert proposal.confidence is not None
    paths: list[Path_] = []
    for token, parent in zip(proposal.tokens.tolist(), proposal.parents.tolist(), strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    return dict(zip(paths, proposal.confidence.tolist(), strict=True))


def recorded() -> Iterator[tuple[list[int], list[int]]]:
    for answer in json.loads(FIXTURE.read_text())["answers"]:
        yield answer["prompt"], answer["answer"]


def sources_of(is_coupled: bool) -> list[GuessingDrafter]:
    known = [CountedText(ids=ints([*prompt, *answer]), prompt_len=len(prompt)) for prompt, answer in recorded()][::2]
    table = count_table(known, vocab_size=VOCAB)
    return [
        SuffixDrafter(is_coupled=is_coupled),
        RecentDrafter(is_coupled=is_coupled),
        TableDrafter(table, is_coupled=is_coupled),
    ]


class Shown(MergedDrafter):
    """Keeps what its sources said, and the weights they were blended with."""

    def guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        found = super().guesses(batch, plan)
        self.heard = [wall.guesses(batch, plan)[0] for wall in self.walls]
        self.weights = self.pools[not batch.sampling[0].params.is_greedy].weights.copy()
        return found


@pytest.mark.parametrize(("nodes", "temperature"), [(8, 0.0), (16, 0.0), (12, 1.0)])
def test_trees_over_recorded_answers_are_those_of_the_definition(nodes: int, temperature: float) -> None:
    drafter = Shown(sources_of(True), vocab_size=VOCAB, width=WIDTH, node_cost=0.0, is_coupled=True)
    params = SamplingParams(temperature=temperature)
    num_nodes = 0
    for prompt, answer in list(recorded())[1:8:2]:
        text, at = [*prompt, *answer], len(prompt) + 1
        while at < len(text) - 9:
            batch = batch_for(RowText(tokens=text[:at], prompt_len=len(prompt), params=params))
            proposal = drafter.propose(batch, plan_for(batch, nodes))
            noise = Coupling(batch.sampling[0], at) if temperature else None
            expected = reference(drafter.heard, drafter.weights, nodes, nodes, noise)
            assert tree_of(proposal) == pytest.approx(expected, rel=1e-5)
            num_nodes += len(expected)
            path = agreed(proposal, text[at:])
            drafter.observe(batch, proposal, None, verdict_of((path, text[at : at + len(path) + 1])))
            at += len(path) + 1
        forget_all(drafter, 0)
    assert num_nodes > 1000


def agreed(proposal: Proposal, truth: list[int]) -> list[int]:
    """Return the nodes along which the tree says what the text does."""
    numbers = {path: number for number, path in enumerate(tree_of(proposal))}
    longest = max((path for path in numbers if path == tuple(truth[: len(path)])), key=len, default=())
    return [numbers[longest[: level + 1]] for level in range(len(longest))]
