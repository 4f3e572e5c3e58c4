"""What every target promises, whatever runs behind the port."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray, IntArray, ints
from paradraft.core.ports import Scores, Target
from paradraft.core.records import Proposal
from support.passes import Row, Tree, batch_of, proposal_of, slots_of
from support.targets import PAGE_SIZE, TAPS, TARGETS, build_target

TEXT = [3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 32, 3, 8, 46, 26]
OTHER = [27, 18, 28, 1, 8, 28, 4, 5, 9, 4, 5]
PAGES = [6, 2, 9, 3, 11, 1]
MORE_PAGES = [4, 5, 0, 12, 7, 8]
TREE = Tree(tokens=[40, 41, 42, 43, 44, 45], parents=[-1, -1, 0, 0, 1, 4])
CHAIN = Tree(tokens=[40, 41, 42], parents=[-1, 0, 1])


@pytest.fixture(scope="module", params=sorted(TARGETS))
def target(request: pytest.FixtureRequest) -> Target:
    return build_target(request.param)


def run(target: Target, rows: Sequence[Row], trees: Sequence[Tree] | None = None) -> Scores:
    proposal = Proposal.empty(len(rows)) if trees is None else proposal_of(trees)
    return target.submit(batch_of(rows, PAGE_SIZE), proposal).wait()


def logits(scores: Scores) -> FloatArray:
    """Return the logits of every scored position, [S, V]."""
    rows = [scores.row(index).copy() for index in range(int(scores.starts[-1]))]
    return np.stack(rows) if rows else np.zeros((0, 0), dtype=np.float32)


def recompute(target: Target, tokens: Sequence[int], pages: Sequence[int] = (20, 21, 22, 23, 24, 25)) -> FloatArray:
    """Return the logits at all positions of a text fed at once to pages of its own, [T, V]."""
    return logits(run(target, [Row(tokens=tokens, pages=pages, num_scored=len(tokens))]))


def feed(target: Target, tokens: Sequence[int], pages: Sequence[int] = PAGES) -> None:
    """Put a text into the cache."""
    run(target, [Row(tokens=tokens, pages=pages, num_scored=0)])


def assert_same(ours: FloatArray, theirs: FloatArray) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)


def test_a_token_scores_the_same_from_the_cache_as_recomputed(target: Target) -> None:
    stepwise = [logits(run(target, [Row(tokens=TEXT[: at + 1], cached=at, pages=PAGES)]))[0] for at in range(len(TEXT))]
    assert_same(np.stack(stepwise), recompute(target, TEXT))


@pytest.mark.parametrize("size", [1, 3, 4, 7])
def test_a_prompt_in_chunks_scores_the_same_as_at_once(target: Target, size: int) -> None:
    chunks = []
    for low in range(0, len(TEXT), size):
        known = TEXT[: low + size]
        chunks.append(logits(run(target, [Row(tokens=known, cached=low, pages=PAGES, num_scored=len(known) - low)])))
    assert_same(np.concatenate(chunks), recompute(target, TEXT))


def test_a_chunk_without_scored_tokens_gives_no_logits_and_fills_the_cache(target: Target) -> None:
    scores = run(target, [Row(tokens=TEXT[:6], pages=PAGES, num_scored=0)])
    assert scores.starts.tolist() == [0, 0]
    assert scores.fed_starts.tolist() == [0, 6]
    assert len(scores.argmax()) == 0
    row = Row(tokens=TEXT[:7], cached=6, pages=PAGES)
    assert_same(logits(run(target, [row])), recompute(target, TEXT[:7])[-1:])


def test_a_row_scores_the_same_beside_other_rows_as_alone(target: Target) -> None:
    feed(target, TEXT[:9])
    first = Row(tokens=TEXT[:10], cached=9, pages=PAGES)
    second = Row(tokens=OTHER, pages=MORE_PAGES, num_scored=3)
    third = Row(tokens=OTHER[:5], pages=[16, 17, 18], num_scored=0)
    together = run(target, [second, first, third], [Tree(), TREE, Tree()])
    assert together.starts.tolist() == [0, 3, 10, 10]
    assert together.fed_starts.tolist() == [0, 11, 18, 23]
    ours = logits(together)
    assert_same(ours[3:], logits(run(target, [first], [TREE])))
    assert_same(ours[:3], recompute(target, OTHER)[-3:])


@pytest.mark.parametrize("tree", [CHAIN, TREE], ids=["chain", "tree"])
@pytest.mark.parametrize("cached", [0, 1, 6, 11])
def test_a_node_scores_as_its_path_decoded_plainly(target: Target, tree: Tree, cached: int) -> None:
    known = TEXT[: cached + 1]
    if cached:
        feed(target, known[:cached])
    ours = logits(run(target, [Row(tokens=known, cached=cached, pages=PAGES)], [tree]))
    for node in range(len(tree.tokens)):
        path = [tree.tokens[index] for index in tree.path_to(node)]
        assert_same(ours[1 + node], recompute(target, known + path)[-1])


def test_nodes_after_several_pending_tokens_see_all_of_them(target: Target) -> None:
    feed(target, TEXT[:3])
    ours = logits(run(target, [Row(tokens=TEXT[:8], cached=3, pages=PAGES, num_scored=2)], [TREE]))
    assert_same(ours[:2], recompute(target, TEXT[:8])[-2:])
    assert_same(ours[2 + 5], recompute(target, [*TEXT[:8], 41, 44, 45])[-1])


def test_an_accepted_path_moved_into_place_is_as_good_as_decoded(target: Target) -> None:
    feed(target, TEXT[:6])
    run(target, [Row(tokens=TEXT[:7], cached=6, pages=PAGES)], [TREE])
    path = [1, 4, 5]
    target.move(
        slots_of(PAGES, PAGE_SIZE, [7 + node for node in path]),
        slots_of(PAGES, PAGE_SIZE, [7, 8, 9]),
    )
    known = [*TEXT[:7], 41, 44, 45, 50]
    ours = logits(run(target, [Row(tokens=known, cached=10, pages=PAGES)]))
    assert_same(ours, recompute(target, known)[-1:])


def test_a_move_reads_every_slot_before_it_writes_one(target: Target) -> None:
    feed(target, TEXT[:8], pages=[6, 2])
    target.move(slots_of([6, 2], PAGE_SIZE, range(8)), slots_of([2, 6], PAGE_SIZE, range(8)))
    ours = logits(run(target, [Row(tokens=TEXT[:9], cached=8, pages=[2, 6, 7])]))
    assert_same(ours, recompute(target, TEXT[:9])[-1:])


def test_pages_may_lie_anywhere(target: Target) -> None:
    in_order = recompute(target, TEXT, pages=[0, 1, 2, 3])
    for pages in ([7, 3, 12, 1], [3, 2, 1, 0], [0, 1, 3, 2]):
        assert_same(recompute(target, TEXT, pages=pages), in_order)


def test_rows_may_share_the_pages_of_a_common_prefix(target: Target) -> None:
    feed(target, TEXT[:8])
    rows = [
        Row(tokens=[*TEXT[:8], 11], cached=8, pages=[*PAGES[:2], 13]),
        Row(tokens=[*TEXT[:8], 22, 33], cached=8, pages=[*PAGES[:2], 14]),
    ]
    ours = logits(run(target, rows))
    assert_same(ours[0], recompute(target, rows[0].tokens)[-1])
    assert_same(ours[1], recompute(target, rows[1].tokens)[-1])


def test_feeding_a_pending_token_again_changes_nothing(target: Target) -> None:
    feed(target, TEXT[:5])
    row = Row(tokens=TEXT[:6], cached=5, pages=PAGES)
    first = logits(run(target, [row], [CHAIN]))
    assert_same(logits(run(target, [row], [CHAIN])), first)
    next_row = Row(tokens=TEXT[:7], cached=6, pages=PAGES)
    assert_same(logits(run(target, [next_row])), recompute(target, TEXT[:7])[-1:])


def test_slots_of_rejected_nodes_do_not_leak_into_later_passes(target: Target) -> None:
    feed(target, TEXT[:5])
    run(target, [Row(tokens=TEXT[:6], cached=5, pages=PAGES)], [TREE])
    ours = logits(run(target, [Row(tokens=TEXT[:8], cached=6, pages=PAGES, num_scored=2)], [CHAIN]))
    assert_same(ours[:2], recompute(target, TEXT[:8])[-2:])


def test_argmax_and_top_agree_with_the_rows(target: Target) -> None:
    scores = run(target, [Row(tokens=TEXT, pages=PAGES, num_scored=4)], [TREE])
    best: IntArray = scores.argmax()
    assert best.dtype == np.int32
    for index, row in enumerate(logits(scores)):
        order = np.lexsort((np.arange(len(row)), -row))
        ids, values = scores.top(index, 5)
        assert row.dtype == np.float32
        assert row.shape == (target.limits.vocab_size,)
        assert best[index] == order[0]
        assert ids.tolist() == order[:5].tolist()
        np.testing.assert_array_equal(values, row[order[:5]])


def test_taps_belong_to_the_fed_tokens_whatever_chunk_or_tree_feeds_them(target: Target) -> None:
    path = [TREE.tokens[index] for index in TREE.path_to(5)]
    whole = run(target, [Row(tokens=[*TEXT[:8], *path], pages=MORE_PAGES)])
    expected = {layer: whole.hidden(layer).copy() for layer in TAPS.hidden_layers}
    entropies = {layer: whole.attention_entropy(layer).copy() for layer in TAPS.entropy_layers}
    feed(target, TEXT[:3])
    scores = run(target, [Row(tokens=TEXT[:8], cached=3, pages=PAGES)], [TREE])
    places = [*range(5), *(5 + node for node in TREE.path_to(5))]
    for layer, states in expected.items():
        assert scores.hidden(layer).shape == (5 + len(TREE.tokens), target.limits.hidden_size)
        assert_same(scores.hidden(layer)[places], states[3:])
    for layer, values in entropies.items():
        assert_same(scores.attention_entropy(layer)[places], values[3:])


def test_scores_of_a_pass_say_which_tokens_were_fed_and_scored(target: Target) -> None:
    rows = [Row(tokens=TEXT[:5], pages=PAGES, num_scored=5), Row(tokens=OTHER[:3], pages=MORE_PAGES, num_scored=0)]
    scores = run(target, rows, [CHAIN, Tree()])
    assert scores.starts.tolist() == [0, 8, 8]
    assert scores.fed_starts.tolist() == [0, 8, 11]


def test_limits_describe_the_target(target: Target) -> None:
    limits = target.limits
    assert limits.page_size == PAGE_SIZE
    assert limits.max_positions >= len(TEXT)
    assert limits.bytes_per_token > 0
    assert limits.dtype == "fp32"
    assert limits.runner
    assert ints([limits.num_layers, limits.hidden_size, limits.num_pages]).min() > 0
