from __future__ import annotations

import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ConfigError
from paradraft.drafters.table.count import CountedText, count_table
from paradraft.drafters.table.drafter import TableDrafter
from paradraft.drafters.table.recent import RecentDrafter
from support.drafting import RowText, batch_for, forget_all, plan_for, propose, tokens_of, verdict_of

EMPTY = count_table([], vocab_size=64)


def eager(*texts: list[int], **options: int) -> TableDrafter:
    table = count_table([CountedText(ids=ints(text)) for text in texts], vocab_size=64)
    return TableDrafter(table, node_cost=0.0, **options)


def answer(drafter: TableDrafter, prompt: list[int], said: list[int], *, tenant: str = "") -> None:
    """Let a request run to its end."""
    text = [*prompt, *said]
    propose(drafter, RowText(tokens=prompt, cached=0, prompt_len=len(prompt), tenant=tenant), nodes=0)
    batch = batch_for(RowText(tokens=text[:-1], prompt_len=len(prompt), tenant=tenant))
    proposal = drafter.propose(batch, plan_for(batch, 2))
    drafter.observe(batch, proposal, None, verdict_of(([], text[-1:])))
    forget_all(drafter, 0)


def test_it_drafts_what_was_counted() -> None:
    assert tokens_of(eager([1, 2, 3, 4, 5] * 3), [9, 1, 2], nodes=4) == [3, 4, 5, 1]


def test_it_speaks_where_the_row_has_no_past() -> None:
    assert tokens_of(eager([7, 8, 9] * 3), [50, 7], nodes=2) == [8, 9]


def test_a_tree_covers_rivals() -> None:
    drafter = eager([3, 60, 3, 61, 3, 60], width=2)
    assert propose(drafter, RowText(tokens=[9, 3]), nodes=2, depth=1)[0] == [(60, -1), (61, -1)]


def test_finished_answers_are_learned_and_prompts_are_not() -> None:
    drafter = TableDrafter(EMPTY, node_cost=0.0)
    answer(drafter, [30, 31, 32, 33], [10, 11, 12, 13])
    assert tokens_of(drafter, [40, 11], nodes=2) == [12, 13]
    assert tokens_of(drafter, [40, 31], nodes=2) == []


def test_nothing_learned_crosses_tenants() -> None:
    drafter = TableDrafter(EMPTY, node_cost=0.0)
    answer(drafter, [30, 31], [10, 11, 12, 13], tenant="a")
    assert propose(drafter, RowText(tokens=[40, 11], tenant="b")) == [[]]
    assert propose(drafter, RowText(tokens=[40, 11], tenant="a", row=1)) != [[]]


def test_no_learned_contexts_means_no_memory_of_answers() -> None:
    drafter = TableDrafter(EMPTY, node_cost=0.0, max_learned=0)
    answer(drafter, [30, 31], [10, 11, 12, 13])
    assert tokens_of(drafter, [40, 11]) == []


def test_the_tables_memory_is_stated() -> None:
    drafter = eager([1, 2, 3] * 5)
    assert drafter.needs.extra_bytes > 0


def test_a_width_without_drafts_is_refused() -> None:
    with pytest.raises(ConfigError, match="width"):
        eager(width=0)


def test_recent_counts_the_rows_own_text_prompt_included() -> None:
    drafter = RecentDrafter(node_cost=0.0)
    assert tokens_of(drafter, [3, 60, 3, 61, 3, 60, 3, 60, 3], nodes=1) == [60]
    assert tokens_of(drafter, [1, 2, 3, 4], nodes=2) == []


def test_recent_goes_on_counting_and_forgets_with_the_row() -> None:
    drafter = RecentDrafter(node_cost=0.0)
    text = [3, 60, 9, 3]
    assert tokens_of(drafter, text, nodes=1) == [60]
    assert tokens_of(drafter, [*text, 61, 3, 61, 3], nodes=1) == [61]
    forget_all(drafter, 0)
    assert tokens_of(drafter, [8, 3], nodes=1) == []


def test_recent_counts_the_same_in_one_go_and_token_by_token() -> None:
    text = [1, 2, 1, 2, 3, 1, 2, 1, 3, 2, 1, 2]
    whole, pieces = RecentDrafter(), RecentDrafter()
    propose(whole, RowText(tokens=text, prompt_len=1))
    for length in range(1, len(text) + 1):
        propose(pieces, RowText(tokens=text[:length], prompt_len=1))
    [ours], [theirs] = list(whole._rows), list(pieces._rows)
    assert ours.counts == theirs.counts


def test_recent_reads_the_end_of_a_long_text_only() -> None:
    text = [1, 60, *[30, 31] * 60, 1]
    assert tokens_of(RecentDrafter(node_cost=0.0), text, nodes=1) == [60]
    assert tokens_of(RecentDrafter(node_cost=0.0, max_row_tokens=50), text, nodes=1) == []
