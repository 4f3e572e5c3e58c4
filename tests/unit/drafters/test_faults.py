"""Faults of parts are told by whatever they are put together in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from paradraft.core.faults import DrafterFaults, Walled
from paradraft.core.ports import Drafter
from paradraft.drafters.faults import add_faults
from paradraft.drafters.frugal import FrugalDrafter
from paradraft.drafters.guard import GuardedDrafter
from paradraft.drafters.guesses import GuessingDrafter
from paradraft.drafters.ladder import LadderDrafter
from paradraft.drafters.merged import MergedDrafter
from paradraft.drafters.neural.selector import MeanEntropy
from paradraft.drafters.neural.uncertainty import UncertaintyDrafter
from paradraft.drafters.plain import PlainDrafter
from support.drafting import VOCAB, RowText, batch_for, plan_for
from support.guessing import Said, broken, saying

BATCH = batch_for(RowText(tokens=[1, 2, 3]))
GOOD = saying({(): {5: 0.6}}, "good")


def merged(*sources: GuessingDrafter) -> MergedDrafter:
    return MergedDrafter(sources, vocab_size=VOCAB, node_cost=0.0)


BUILDS: dict[str, Callable[[GuessingDrafter], Drafter]] = {
    "merged": lambda bad: merged(bad, GOOD),
    "ladder": lambda bad: LadderDrafter([bad, GOOD], vocab_size=VOCAB),
    "frugal's network": lambda bad: FrugalDrafter(merged(GOOD), bad, vocab_size=VOCAB),
    "frugal's free source": lambda bad: FrugalDrafter(merged(bad, GOOD), GOOD, vocab_size=VOCAB),
    "uncertainty": lambda bad: UncertaintyDrafter(merged(bad, GOOD), MeanEntropy(layer=0, threshold=1.0)),
}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_a_source_that_fails_is_counted_at_the_top(build: Callable[[GuessingDrafter], Drafter]) -> None:
    guarded = GuardedDrafter(build(Said(broken, "bad")), vocab_size=VOCAB)
    assert guarded.num_faults == 0
    for _ in range(12):
        guarded.propose(BATCH, plan_for(BATCH, 4))
    faults = guarded.faults()
    assert guarded.failures == {}
    assert guarded.num_faults == sum(faults.by_kind.values()) == 3
    assert faults.num_pauses == 1
    assert not faults.is_resting


@pytest.mark.parametrize("build", [BUILDS["merged"], BUILDS["ladder"]], ids=["merged", "ladder"])
def test_own_faults_and_those_of_sources_add_up(build: Callable[[GuessingDrafter], Drafter]) -> None:
    guarded = GuardedDrafter(build(Said(broken, "bad")), vocab_size=VOCAB)
    guarded.propose(BATCH, plan_for(BATCH, 4))
    inside = guarded.faults().by_kind
    guarded.count(OSError("no mood"))
    assert guarded.num_faults == sum(inside.values()) + 1
    assert guarded.faults().by_kind == {**inside, "OSError": 1}


def test_a_drafter_rests_when_all_its_sources_do() -> None:
    guarded = GuardedDrafter(merged(Said(broken, "a"), Said(broken, "b")), vocab_size=VOCAB)
    for _ in range(3):
        guarded.propose(BATCH, plan_for(BATCH, 4))
    assert guarded.faults().is_resting
    assert not guarded.is_resting


def test_nothing_together_has_no_faults_and_does_not_rest() -> None:
    assert add_faults([]) == DrafterFaults()
    assert not isinstance(PlainDrafter(), Walled)
