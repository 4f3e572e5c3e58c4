from __future__ import annotations

import pytest

from paradraft.core.errors import ConfigError
from paradraft.drafters.ngram import HIT_RATES, NgramDrafter
from support.drafting import RowText, batch_for, plan_for, tokens_of, verdict_of


def eager(**options: int) -> NgramDrafter:
    return NgramDrafter(node_cost=0.0, **options)


def test_the_longest_match_wins() -> None:
    assert tokens_of(eager(), [1, 2, 3, 60, 9, 3, 61, 8, 1, 2, 3], nodes=1) == [60]


def test_the_most_recent_occurrence_wins_among_equals() -> None:
    assert tokens_of(eager(), [3, 60, 3, 61, 9, 3], nodes=1) == [61]


def test_matches_are_counted_up_to_max_match_only() -> None:
    text = [1, 2, 3, 60, 4, 2, 3, 61, 1, 2, 3]
    assert tokens_of(eager(max_match=2), text, nodes=1) == [61]
    assert tokens_of(eager(max_match=3), text, nodes=1) == [60]


def test_shorter_matches_than_min_match_give_no_draft() -> None:
    text = [1, 2, 60, 3, 2]
    assert tokens_of(eager(min_match=1), text, nodes=1) == [60]
    assert tokens_of(eager(min_match=2), text, nodes=1) == []


def test_a_draft_that_reaches_the_end_goes_on_in_a_circle() -> None:
    assert tokens_of(eager(), [9, 1, 2, 1, 2], nodes=7) == [1, 2, 1, 2, 1, 2, 1]
    assert tokens_of(eager(), [7, 7, 7], nodes=4) == [7, 7, 7, 7]


def test_nothing_is_drafted_without_an_earlier_occurrence() -> None:
    assert tokens_of(eager(), [1, 2, 3, 4], nodes=4) == []


def test_a_short_match_gives_a_shorter_draft_than_a_long_one() -> None:
    short = tokens_of(NgramDrafter(), [*range(20, 40), 5, *range(40, 60), 5], nodes=10)
    long = tokens_of(NgramDrafter(), [*range(20, 40), *range(10, 20), *range(20, 30)], nodes=10)
    assert 1 <= len(short) < len(long) == 10


def test_drafts_that_fail_get_shorter_and_those_that_stand_get_longer_again() -> None:
    drafter = NgramDrafter(node_cost=0.15)
    text = [3, 60, 61, 62, 9, 60, 61]
    lengths = []
    for is_right in [False] * 12 + [True] * 60:
        batch = batch_for(RowText(tokens=text, prompt_len=5))
        proposal = drafter.propose(batch, plan_for(batch, 6))
        count = len(proposal.tokens)
        lengths.append(count)
        path = list(range(count)) if is_right else []
        drafter.observe(batch, proposal, None, verdict_of((path, [0])))
    assert lengths[11] < lengths[0]
    assert lengths[-1] >= lengths[0]


def test_confidence_falls_along_the_path() -> None:
    batch = batch_for(RowText(tokens=[1, 2, 3, 4, 1, 2, 3]))
    confidence = eager().propose(batch, plan_for(batch, 4)).confidence
    assert confidence is not None
    assert confidence[0] == pytest.approx(HIT_RATES[2])
    assert (confidence[1:] < confidence[:-1]).all()


@pytest.mark.parametrize(("low", "high"), [(0, 4), (3, 2), (1, 11)])
def test_matches_that_cannot_be_searched_are_refused(low: int, high: int) -> None:
    with pytest.raises(ConfigError, match="min_match"):
        NgramDrafter(min_match=low, max_match=high)


def test_only_the_last_tokens_of_a_row_are_kept() -> None:
    text = [1, 2, 60, *[30, 31] * 40, 1, 2]
    assert tokens_of(eager(), text, nodes=1) == [60]
    assert tokens_of(eager(max_row_tokens=50), text, nodes=1) == []
