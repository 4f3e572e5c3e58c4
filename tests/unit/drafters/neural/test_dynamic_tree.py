from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from paradraft.core.arrays import IntArray
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.coupling import Coupling
from paradraft.drafters.draft import Draft, Price
from paradraft.drafters.growth import Budget, grow
from paradraft.drafters.neural.dynamic_tree import DrawnWalk, TreeTerms, TreeWalk, run_walks
from paradraft.drafters.neural.law import SlotLaw
from paradraft.drafters.neural.overlap import Overlap
from paradraft.nets.serving.steps import Level
from paradraft.verify.noise import GumbelNoise
from support.drafting import RowText, batch_for
from support.stub_target import hashed_law

VOCAB = 12
LAW = hashed_law(VOCAB)
GREEDY, WARM = SamplingParams(temperature=0.0), SamplingParams(temperature=0.8)
FREE = Price(0.0)


class HashedRound:
    """A round whose laws are hashes of row and path; it writes down what it is fed, level by level."""

    def __init__(self, num_rows: int, heat: float = 1.0) -> None:
        self._paths: list[tuple[int, ...]] = [(100 + row,) for row in range(num_rows)]
        self._heat = heat
        self.levels: list[int] = []
        self.anchors = self._level(self._paths)

    def extend(self, parents: IntArray, tokens: IntArray) -> Level:
        rows = [self._paths[parent][0] for parent in parents.tolist()]
        assert rows == sorted(rows)  # nodes of one row stand together
        new = [(*self._paths[parent], token) for parent, token in zip(parents.tolist(), tokens.tolist(), strict=True)]
        assert not set(new) & set(self._paths)
        self._paths += new
        self.levels.append(len(new))
        return self._level(new)

    def _level(self, paths: list[tuple[int, ...]]) -> Level:
        logits = np.stack([LAW(path) for path in paths])
        order = np.argsort(-logits, axis=-1)
        ids = order.astype(np.int32)
        total = np.log(np.exp(logits / self._heat).sum(-1)).astype(np.float32)
        return Level(ids=ids, logits=np.take_along_axis(logits, order, -1), log_total=total)


def chances(path: tuple[int, ...], heat: float = 1.0) -> np.ndarray:
    weights = np.exp(LAW(path).astype(np.float64) / heat)
    return weights / weights.sum()


def paths_of(draft: Draft) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for token, parent in zip(draft.tokens, draft.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


def walked(*terms: TreeTerms, params: SamplingParams = GREEDY) -> tuple[list[TreeWalk], HashedRound]:
    opened = HashedRound(len(terms), heat=params.temperature or 1.0)
    walks = [TreeWalk(params=params, terms=each) for each in terms]
    run_walks(opened, walks)
    return walks, opened


def test_a_beam_of_one_is_the_greedy_chain_with_one_pass_per_level() -> None:
    [walk], opened = walked(TreeTerms(depth=5, num_nodes=5))
    draft = grow(walk, Budget(5, 5, 1, FREE))
    path: tuple[int, ...] = (100,)
    for _ in range(5):
        path = (*path, int(LAW(path).argmax()))
    assert tuple(draft.tokens) == path[1:]
    assert opened.levels == [1, 1, 1, 1]
    expected = np.cumprod([chances(path[:end])[path[end]] for end in range(1, 6)])
    np.testing.assert_allclose(draft.confidence, expected, rtol=1e-5)


def test_a_wide_beam_finds_the_best_tree_of_all() -> None:
    [walk], _ = walked(TreeTerms(depth=3, num_nodes=8, beam=VOCAB**2))
    draft = grow(walk, Budget(8, 3, VOCAB, FREE))
    every = {}
    for depth in (1, 2, 3):
        for path in product(range(VOCAB), repeat=depth):
            steps = [chances((100, *path[:end]))[path[end]] for end in range(depth)]
            every[path] = np.prod(steps)
    best = sorted(every, key=every.__getitem__, reverse=True)[:8]
    assert set(paths_of(draft)) == set(best)


def test_the_beam_bounds_each_level_and_useless_nodes_are_not_extended() -> None:
    _, opened = walked(TreeTerms(depth=5, num_nodes=60, beam=4))
    assert opened.levels == [4, 4, 4, 4]
    _, frugal = walked(TreeTerms(depth=5, num_nodes=2, beam=4))
    assert sum(frugal.levels) < 8
    _, bounded = walked(TreeTerms(depth=5, num_nodes=60, beam=4, floor=0.99))
    assert bounded.levels == []


def test_rows_walk_together_and_each_as_if_alone() -> None:
    terms = [TreeTerms(depth=4, num_nodes=6, beam=3), TreeTerms(depth=1, num_nodes=3), TreeTerms(depth=3, num_nodes=3)]
    walks, opened = walked(*terms)
    assert len(opened.levels) == 3
    assert opened.levels[0] <= 3 + 1
    for row, (walk, each) in enumerate(zip(walks, terms, strict=True)):
        draft = grow(walk, Budget(each.num_nodes, each.depth, each.beam, FREE))
        for path in paths_of(draft):
            state = walk.root()
            for end, token in enumerate(path):
                share = walk.shares(state)[token]
                assert share == pytest.approx(chances((100 + row, *path[:end]))[token], rel=1e-5)
                state = walk.descend(state, token)


def test_a_path_that_was_not_fed_has_nothing_below_it() -> None:
    [walk], _ = walked(TreeTerms(depth=3, num_nodes=3))
    worst = min(walk.shares(walk.root()), key=walk.shares(walk.root()).__getitem__)
    assert walk.descend(walk.root(), worst) is None
    assert walk.source_of(walk.root(), worst) == 1
    assert walk.source_of(walk.root(), 10_000) == 0


def test_at_a_temperature_the_beam_follows_the_targets_noise() -> None:
    batch = batch_for(RowText(tokens=[1, 2, 3], params=WARM, seed=11))
    coupling = Coupling(batch.sampling[0], 3)
    [walk], _ = walked(TreeTerms(depth=4, num_nodes=4, coupling=coupling), params=WARM)
    path: tuple[int, ...] = (100,)
    for depth in range(4):
        noise = GumbelNoise(11, 0).gumbel(np.arange(VOCAB, dtype=np.int32), position=3 + depth)
        path = (*path, int((np.log(chances(path, 0.8)) + noise).argmax()))
    assert tuple(grow(walk, Budget(4, 4, 1, FREE), coupling).tokens) == path[1:]


def test_drawn_chains_report_the_laws_they_were_drawn_from_and_are_as_long_as_planned() -> None:
    opened = HashedRound(2, heat=0.8)
    walks = [
        DrawnWalk(params=WARM, depth=depth, noise=GumbelNoise(seed, 0), overlap=Overlap(), start=7)
        for seed, depth in ((1, 3), (2, 1))
    ]
    run_walks(opened, walks)
    assert [len(walk.drawn.draft) for walk in walks] == [3, 1]
    assert opened.levels == [1, 1]
    path: tuple[int, ...] = (100,)
    for node, token in enumerate(walks[0].drawn.draft.tokens):
        law = walks[0].drawn.laws[walks[0].drawn.law_of[node]]
        np.testing.assert_allclose(law.probabilities, chances(path, 0.8)[law.ids], rtol=1e-5)
        path = (*path, token)


def test_drawn_tokens_have_the_frequencies_of_their_law() -> None:
    counts = np.zeros(VOCAB)
    for seed in range(3000):
        walk = DrawnWalk(params=WARM, depth=2, noise=GumbelNoise(seed, 0), overlap=Overlap(), start=7)
        run_walks(HashedRound(1, heat=0.8), [walk])
        first, second = walk.drawn.draft.tokens
        counts[second] += first == int(LAW((100,)).argmax())
    expected = chances((100, int(LAW((100,)).argmax())), 0.8)
    np.testing.assert_allclose(counts / counts.sum(), expected, atol=0.05)


def test_of_many_candidates_those_are_told_that_the_noise_prefers() -> None:
    batch = batch_for(RowText(tokens=[1, 2, 3], params=WARM, seed=11))
    coupling = Coupling(batch.sampling[0], 3)
    law = SlotLaw(np.arange(40, dtype=np.int32), np.full(40, 1 / 50), 0.2)
    told = []
    for each in (None, coupling):
        walk = TreeWalk(params=WARM, terms=TreeTerms(depth=2, num_nodes=2, coupling=each))
        walk.learn(0, law)
        told.append(set(walk.shares(walk.root())))
    noise = GumbelNoise(11, 0).gumbel(np.arange(40, dtype=np.int32), position=3)
    assert told[0] == set(range(16))
    assert told[1] == set(np.argsort(-noise)[:16].tolist())
