from __future__ import annotations

import pytest

from paradraft.core.errors import ConfigError
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.suffix import SuffixDrafter
from support.drafting import RowText, batch_for, forget_all, plan_for, propose, tokens_of, verdict_of

PROMPT = [1, 2, 3]
ANSWER = [10, 11, 12, 13, 14, 15]
OWN, SHARED = 0b01, 0b10


def eager(**options: int) -> SuffixDrafter:
    return SuffixDrafter(node_cost=0.0, **options)


def answer_once(drafter: SuffixDrafter, *, row: int = 0, tenant: str = "", prompt: list[int] = PROMPT) -> None:
    """Let a request of a tenant run: prefill, then two steps whose last tokens come with the last verdict."""
    known = [*prompt, *ANSWER[:1]]
    propose(drafter, RowText(tokens=prompt, row=row, cached=0, prompt_len=len(prompt), tenant=tenant), nodes=0)
    batch = batch_for(RowText(tokens=known, row=row, prompt_len=len(prompt), tenant=tenant))
    proposal = drafter.propose(batch, plan_for(batch, 2))
    drafter.observe(batch, proposal, None, verdict_of(([], ANSWER[1:])))
    forget_all(drafter, row)


def test_a_finished_answer_is_drafted_for_the_next_request() -> None:
    drafter = eager()
    answer_once(drafter)
    batch = batch_for(RowText(tokens=[40, 41, 10, 11], tenant=""))
    proposal = drafter.propose(batch, plan_for(batch, 6))
    assert proposal.tokens.tolist() == [12, 13, 14, 15]
    assert set(proposal.sources.tolist()) == {SHARED}


def test_prompts_are_not_shared() -> None:
    drafter = eager()
    answer_once(drafter, prompt=[50, 51, 52, 53])
    assert tokens_of(drafter, [40, 50, 51]) == []


def test_nothing_crosses_tenants() -> None:
    """What one tenant's requests produced is never suggested to another's."""
    drafter = eager()
    answer_once(drafter, tenant="a")
    seen = RowText(tokens=[40, 10, 11], tenant="b")
    assert propose(drafter, seen) == [[]]
    assert propose(drafter, RowText(tokens=[40, 10, 11], tenant="a", row=1)) != [[]]


def test_no_shared_tokens_means_no_memory_of_answers() -> None:
    drafter = eager(shared_tokens=0)
    answer_once(drafter)
    assert tokens_of(drafter, [40, 10, 11]) == []
    assert drafter.shared.num_tokens == 0


def test_an_answer_counts_once_however_often_its_row_was_preempted() -> None:
    drafter = eager()
    for _ in range(3):
        known = [*PROMPT, *ANSWER]
        propose(drafter, RowText(tokens=known, prompt_len=len(PROMPT)))
        forget_all(drafter, 0)
    answer_once(drafter)
    assert drafter.shared.of("").recent(50) == [-1, *ANSWER[::-1]]


def test_the_rows_own_text_is_heard_first() -> None:
    drafter = eager()
    answer_once(drafter)
    batch = batch_for(RowText(tokens=[10, 11, 60, 5, 10, 11]))
    proposal = drafter.propose(batch, plan_for(batch, 1))
    assert proposal.tokens.tolist() == [60]
    assert proposal.sources.tolist() == [OWN]


def test_where_both_texts_agree_both_are_credited() -> None:
    drafter = eager()
    answer_once(drafter)
    batch = batch_for(RowText(tokens=[10, 11, 12, 5, 10, 11]))
    assert drafter.propose(batch, plan_for(batch, 1)).sources.tolist() == [OWN | SHARED]


def test_counts_overrule_recency_when_they_are_clear() -> None:
    text = [3, 60, 3, 60, 3, 60, 3, 60, 3, 61, 3]
    assert tokens_of(eager(), text, nodes=1) == [60]


def test_drafts_grow_with_the_evidence() -> None:
    """No match gives no draft, a long match a long one: default settings do not draft a mediocre guess to the end."""
    drafter = SuffixDrafter()
    unknown = tokens_of(drafter, list(range(20)), nodes=10)
    short = tokens_of(SuffixDrafter(), [*range(20, 40), 5, *range(40, 60), 5], nodes=10)
    long = tokens_of(SuffixDrafter(), [*range(10, 40), *range(10, 20)], nodes=10)
    assert len(unknown) == 0 < len(short) <= 5 < len(long) == 10


def test_a_tree_covers_rivals() -> None:
    text = [3, 60, 9, 3, 61, 8, 3]
    drafts = propose(eager(width=2), RowText(tokens=text), nodes=2, depth=1)[0]
    assert drafts == [(61, -1), (60, -1)]
    assert propose(eager(), RowText(tokens=text), nodes=2, depth=1)[0] == [(61, -1)]


def test_a_width_without_drafts_is_refused() -> None:
    with pytest.raises(ConfigError, match="width"):
        SuffixDrafter(width=0)


def test_rows_that_want_no_speculation_leave_nothing_behind() -> None:
    drafter = eager()
    silent = RowText(tokens=[*PROMPT, *ANSWER], prompt_len=3, params=SamplingParams(speculate=False))
    propose(drafter, silent)
    forget_all(drafter, 0)
    assert drafter.shared.num_tokens == 0
