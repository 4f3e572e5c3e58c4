from __future__ import annotations

import pytest

from paradraft.core.errors import ConfigError
from paradraft.core.records import Proposal
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.guesses import GuessingDrafter
from paradraft.drafters.merged import MergedDrafter
from paradraft.drafters.ngram import NgramDrafter
from paradraft.drafters.suffix import SuffixDrafter
from paradraft.drafters.table.recent import RecentDrafter
from support.drafting import (
    DRAFTERS,
    VOCAB,
    RowText,
    batch_for,
    counted_table,
    drafts_of,
    plan_for,
    propose,
    verdict_of,
)
from support.guessing import Law, Said, broken, saying


def merged(*sources: GuessingDrafter, **options: object) -> MergedDrafter:
    return MergedDrafter(sources, vocab_size=VOCAB, node_cost=0.0, **options)  # type: ignore[arg-type]


def tree(drafter: MergedDrafter, nodes: int = 6) -> Proposal:
    batch = batch_for(RowText(tokens=[1, 2, 3]))
    return drafter.propose(batch, plan_for(batch, nodes))


def test_a_token_that_two_sources_name_is_one_node_with_both_credited() -> None:
    proposal = tree(merged(saying({(): {5: 0.5}}, "a"), saying({(): {5: 0.4, 6: 0.2}}, "b")), nodes=2)
    assert drafts_of(proposal, 0) == [(5, -1), (6, -1)]
    assert proposal.sources.tolist() == [0b11, 0b10]


def test_every_source_is_asked_below_a_token_that_only_another_named() -> None:
    drafter = merged(saying({(): {5: 0.6}}, "a"), saying({(5,): {7: 0.9}}, "b"))
    assert drafts_of(tree(drafter, nodes=2), 0) == [(5, -1), (7, 0)]


def test_it_drafts_at_least_as_deep_as_its_best_source_and_names_no_token_twice() -> None:
    text = [*range(10, 20), *range(10, 20), 10]
    proposal = merged(SuffixDrafter(), RecentDrafter(), NgramDrafter()).propose(
        batch := batch_for(RowText(tokens=text)), plan_for(batch, 6)
    )
    assert drafts_of(proposal, 0)[:6] == [(11 + step, step - 1) for step in range(6)]
    assert len(set(drafts_of(proposal, 0))) == len(proposal.tokens)


def test_bits_of_sources_with_several_stand_one_after_another() -> None:
    drafter = merged(saying({}, "first"), SuffixDrafter(), saying({}, "last"))
    assert drafter.needs.sources == ("first", "suffix", "shared", "last")
    proposal = drafter.propose(batch := batch_for(RowText(tokens=[4, 5, 6, 4])), plan_for(batch, 1))
    assert proposal.sources.tolist() == [0b0010]


def test_its_needs_are_those_of_all_sources() -> None:
    needs = merged(Said(broken, "a", layers=(3, 1)), Said(broken, "b", layers=(2, 3))).needs
    assert needs.hidden_layers == (1, 2, 3)
    assert needs.extra_bytes == 14
    assert needs.weighs_nodes
    assert not needs.is_sampled


@pytest.mark.parametrize(
    "law",
    [
        broken,
        lambda _: {VOCAB: 0.5},
        lambda _: {-1: 0.5},
        lambda _: {1: float("nan")},
        lambda _: {1: 1.5},
        lambda _: {1: 0.6, 2: 0.6},
        lambda _: dict.fromkeys(range(40), 0.01),
    ],
)
def test_a_broken_source_costs_its_own_guesses_and_no_others(law: Law) -> None:
    good = saying({(): {5: 0.6}, (5,): {6: 0.6}}, "good")
    drafter = merged(Said(law, "bad"), good)
    assert [token for token, _ in drafts_of(tree(drafter, nodes=2), 0)] == [5, 6]
    assert drafter.walls[0].num_failures == 1
    assert drafter.walls[1].num_failures == 0


def test_a_source_that_fails_in_every_round_is_laid_off() -> None:
    drafter = merged(bad := Said(broken, "bad"), saying({(): {5: 0.6}}, "good"))
    for _ in range(12):
        tree(drafter)
    assert drafter.walls[0].is_resting
    assert bad.num_asked == drafter.walls[0].num_failures == 3


def test_it_learns_which_source_to_believe_from_what_the_target_says() -> None:
    """Only places whose path was accepted count, and they count for every source that was asked there."""
    drafter = merged(saying({(): {5: 0.6}}, "liar"), saying({(): {6: 0.3}, (6,): {7: 0.3}}, "honest"))
    first = tree(drafter, nodes=1).tokens.tolist()
    batch = batch_for(RowText(tokens=[1, 2, 3]))
    for _ in range(200):
        proposal = drafter.propose(batch, plan_for(batch, 4))
        drafter.observe(batch, proposal, None, verdict_of(([0], [6, 7])))
    assert first == [5]
    assert drafts_of(drafter.propose(batch, plan_for(batch, 2)), 0) == [(6, -1), (7, 0)]
    assert drafter.pools[False].num_steps == 400
    assert drafter.pools[True].num_steps == 0


def test_what_is_learned_of_rows_with_a_temperature_stays_apart() -> None:
    drafter = merged(saying({(): {5: 0.6}}, "a"), saying({(): {6: 0.3}}, "b"))
    batch = batch_for(RowText(tokens=[1, 2, 3], params=SamplingParams(temperature=1.0)))
    drafter.observe(batch, drafter.propose(batch, plan_for(batch, 2)), None, verdict_of(([], [6])))
    assert (drafter.pools[False].num_steps, drafter.pools[True].num_steps) == (0, 1)


def test_sources_are_shown_a_proposal_without_estimates_that_are_not_theirs() -> None:
    source = saying({(): {5: 0.6}})
    drafter = merged(source, NgramDrafter())
    batch = batch_for(RowText(tokens=[1, 2, 1]))
    proposal = drafter.propose(batch, plan_for(batch, 2))
    drafter.observe(batch, proposal, None, verdict_of(([], [5])))
    assert proposal.confidence is not None
    assert source.shown[0].confidence is None


def test_estimates_are_those_of_the_blend_and_fall_along_paths() -> None:
    proposal = tree(merged(saying({(): {5: 0.5, 6: 0.3}, (5,): {7: 0.5}}, "a"), saying({(): {5: 0.5}}, "b")))
    assert proposal.confidence is not None
    confidence, parents = proposal.confidence.tolist(), proposal.parents.tolist()
    assert all(
        value <= (1.0 if parent < 0 else confidence[parent]) for value, parent in zip(confidence, parents, strict=True)
    )
    assert confidence == sorted(confidence, reverse=True)


def test_two_hundred_rounds_of_a_looping_text_are_foretold_by_the_blend() -> None:
    """A floor: look-ups together foretell a text that goes round."""
    text = [9, 31, 4, 17, 8, 40, 22] * 12
    drafter = merged(SuffixDrafter(), RecentDrafter())
    [drafts] = propose(drafter, RowText(tokens=text[:40]), nodes=8)
    assert [token for token, _ in drafts] == text[40:48]


@pytest.mark.parametrize("options", [{"width": 0}, {}])
def test_no_sources_or_no_width_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="sources"):
        MergedDrafter([SuffixDrafter()] if options else [], vocab_size=VOCAB, **options)


def test_all_of_ours_that_guess_are_guessing_drafters() -> None:
    for name in ("n-gram", "suffix", "recent", "table", "network", "merged"):
        assert isinstance(DRAFTERS[name](), GuessingDrafter), name
    assert counted_table().num_tokens > 0
