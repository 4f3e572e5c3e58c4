"""Free guesses in one tree, and a network's where it is worth its time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from paradraft.core.errors import ConfigError
from paradraft.core.records import Proposal
from paradraft.drafters.frugal import FrugalDrafter
from paradraft.drafters.guesses import GuessingDrafter
from paradraft.drafters.merged import MergedDrafter
from paradraft.drafters.worth import PROBE_EVERY, class_of
from support.drafting import VOCAB, RowText, batch_for, drafts_of, plan_for, verdict_of
from support.guessing import Said, broken, saying

TEXT = RowText(tokens=[1, 2, 3])


PASS = 0.02  # seconds of the target


class Watch:
    """A clock that goes on only when it is told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Slow(Said):
    """A network that takes its time."""

    watch: Watch
    seconds = 0.0

    def guesses(self, batch, plan):
        found = super().guesses(batch, plan)
        self.watch.now += self.seconds
        return found


def frugal(free: Said, network: GuessingDrafter, seconds: float = 0.0, **options: object) -> FrugalDrafter:
    watch = Watch()
    if isinstance(network, Slow):
        network.watch, network.seconds = watch, seconds
    merged = MergedDrafter([free], vocab_size=VOCAB, node_cost=0.0)
    return FrugalDrafter(merged, network, vocab_size=VOCAB, node_cost=0.0, clock=watch, **options)  # type: ignore[arg-type]


def step(drafter: FrugalDrafter, tokens: Sequence[int], nodes: int = 4) -> Proposal:
    """Take a step after which the target has said these tokens."""
    batch = batch_for(TEXT)
    proposal = drafter.propose(batch, plan_for(batch, nodes))
    drafter._clock.now += PASS  # type: ignore[attr-defined]
    found, path, at = drafts_of(proposal, 0), [], -1
    for token in tokens:
        if (token, at) not in found:
            break
        at = found.index((token, at))
        path.append(at)
    drafter.observe(batch, proposal, None, verdict_of((path, tokens[: len(path) + 1])))  # type: ignore[arg-type]
    return proposal


def test_free_guesses_and_the_networks_become_one_tree_with_both_credited() -> None:
    drafter = frugal(saying({(): {5: 0.6}}, "free"), saying({(): {5: 0.5}, (5,): {7: 0.9}}, "network"))
    assert drafter.needs.sources == ("free", "network")
    batch = batch_for(TEXT)
    proposal = drafter.propose(batch, plan_for(batch, 2))
    assert drafts_of(proposal, 0) == [(5, -1), (7, 0)]
    assert proposal.sources.tolist() == [0b11, 0b10]


def test_a_network_that_brings_more_than_it_takes_is_asked_every_time() -> None:
    network = Slow(lambda path: {6: 0.9}, "network")
    drafter = frugal(saying({}, "free"), network, seconds=0.001)
    for _ in range(200):
        step(drafter, [6, 6, 6, 6, 6])
    assert network.num_asked == 200


def test_a_network_that_takes_more_than_it_brings_is_only_probed() -> None:
    network = Slow(lambda path: {6: 0.9}, "network")
    drafter = frugal(saying({}, "free"), network, seconds=1.0)
    for _ in range(40 * PROBE_EVERY):
        step(drafter, [6, 6, 6, 6, 6])
    assert 3 < network.num_asked < PROBE_EVERY


def test_a_network_is_not_asked_where_free_guesses_do_as_well() -> None:
    """What it brings is what stands beyond the free draft, however much of its own stands."""
    network = Slow(lambda path: {6: 0.9}, "network")
    drafter = frugal(Said(lambda path: {6: 0.9}, "free"), network, seconds=0.002)
    for _ in range(400):
        step(drafter, [6, 6, 6, 6, 6])
    assert network.num_asked < 60
    kind = class_of(step(drafter, [6] * 5).confidence.sum() + 1.0, is_warm=False)  # type: ignore[union-attr]
    assert drafter.worth.gain(kind) < drafter.worth.cost(1)


def test_without_the_network_the_draft_is_that_of_the_free_sources_alone() -> None:
    free = saying({(): {5: 0.6, 9: 0.1}, (5,): {7: 0.4}}, "free")
    drafter = frugal(free, Slow(lambda path: {6: 0.9}, "network"), seconds=1.0)
    alone = MergedDrafter([saying({(): {5: 0.6, 9: 0.1}, (5,): {7: 0.4}}, "free")], vocab_size=VOCAB, node_cost=0.0)
    for _ in range(PROBE_EVERY):
        step(drafter, [8])
    batch = batch_for(TEXT)
    drafter.free.pools = alone.pools  # type: ignore[attr-defined]
    found, wanted = (each.propose(batch, plan_for(batch, 4)) for each in (drafter, alone))
    assert drafts_of(found, 0) == drafts_of(wanted, 0)
    assert found.sources.tolist() == wanted.sources.tolist() == [1] * len(found.tokens)


def test_rows_without_a_budget_are_not_asked_for() -> None:
    network = saying({(): {6: 0.9}}, "network")
    drafter = frugal(saying({}, "free"), network)
    batch = batch_for(TEXT, RowText(tokens=[4, 5], row=1))
    proposal = drafter.propose(batch, plan_for(batch, [0, 3]))
    assert proposal.num_nodes.tolist() == [0, 1]
    drafter.propose(batch, plan_for(batch, 0))
    assert network.num_asked == 1


def test_a_broken_network_costs_its_own_guesses_and_is_laid_off() -> None:
    drafter = frugal(saying({(): {5: 0.6}}, "free"), Said(broken, "network"))
    for _ in range(10):
        assert step(drafter, [5, 1], nodes=2).tokens.tolist() == [5]
    assert drafter.wall.num_failures == 3
    assert drafter.wall.is_resting


def test_both_learn_from_what_the_target_says() -> None:
    free, network = saying({(): {5: 0.6}}, "free"), saying({(): {6: 0.5}}, "network")
    drafter = frugal(free, network)
    for _ in range(30):
        step(drafter, [6, 1])
    assert drafter.pools[False].num_steps == 30
    assert drafter.free.pools[False].num_steps == 30  # type: ignore[attr-defined]
    assert (len(free.shown), len(network.shown)) == (30, 30)


def test_a_width_that_makes_no_draft_is_refused() -> None:
    with pytest.raises(ConfigError, match="width=0"):
        frugal(saying({}), saying({}), width=0)
