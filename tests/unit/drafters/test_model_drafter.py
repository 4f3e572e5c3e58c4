from __future__ import annotations

import pytest

from paradraft.core.errors import ConfigError
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.candidates import DraftHeat
from paradraft.drafters.model import LAZY, ModelDrafter, ModelDrafterOptions
from support.drafting import DRAFT_LAW, VOCAB, RowText, batch_for, build_model_drafter, forget_all, plan_for, propose
from support.engines import LAW, build_engine, request, run
from support.stub_target import StubTarget, continue_plainly, hashed_law

TEXT = [3, 14, 15, 9, 26, 5, 35, 8, 9, 7]


def stub_of(drafter: ModelDrafter) -> StubTarget:
    target = drafter._target
    assert isinstance(target, StubTarget)
    return target


def test_a_chain_is_the_models_own_greedy_continuation() -> None:
    drafts = propose(build_model_drafter(), RowText(tokens=TEXT), nodes=6)[0]
    assert [token for token, _ in drafts] == continue_plainly(DRAFT_LAW, TEXT, 6)


def test_a_tree_holds_the_best_children_of_every_node() -> None:
    drafter = build_model_drafter(ModelDrafterOptions(branching=(2, 2)))
    drafts = propose(drafter, RowText(tokens=TEXT), nodes=6, depth=2)[0]
    paths: list[list[int]] = []
    for token, parent in drafts:
        before = paths[parent] if parent >= 0 else []
        ranked = DRAFT_LAW((*TEXT, *before)).argsort()[::-1][:2].tolist()
        assert token in ranked
        paths.append([*before, token])
    assert [len(path) for path in paths] == [1, 1, 2, 2, 2, 2]


def test_breadth_leaves_room_for_depth() -> None:
    drafter = build_model_drafter(ModelDrafterOptions(branching=(3, 2, 2)))
    proposal = drafter.propose(*_step(RowText(tokens=TEXT), nodes=5, depth=3))
    assert sorted(proposal.depths.tolist()) == [1, 1, 1, 2, 3]


def _step(row: RowText, *, nodes: int, depth: int):  # type: ignore[no-untyped-def]
    batch = batch_for(row)
    return batch, plan_for(batch, nodes, depth)


def test_accepted_drafts_stay_cached_and_rejected_ones_do_not() -> None:
    """The stub reads its tokens through cache slots, so a stale or misplaced slot would change the draft."""
    drafter = build_model_drafter()
    known = list(TEXT)
    for agreed in (0, 3, 6, 1, 5):
        draft = [token for token, _ in propose(drafter, RowText(tokens=known, prompt_len=9), nodes=6)[0]]
        assert draft == continue_plainly(DRAFT_LAW, known, 6)
        known += [*draft[:agreed], (draft[agreed] + 1) % VOCAB if agreed < 6 else 1]
    drafter._pages.check()
    # Five chains of six passes; after each, only what was not drafted or not fed is fed again.
    assert sum(stub_of(drafter).fed) == len(TEXT) + 5 * 5 + (1 + 1 + 2 + 1)


def test_tokens_that_replace_drafts_are_fed_again() -> None:
    """Several tokens may differ from what was drafted, when steps were skipped."""
    drafter = build_model_drafter()
    known = list(TEXT)
    for _ in range(3):
        draft = [token for token, _ in propose(drafter, RowText(tokens=known, prompt_len=9), nodes=6)[0]]
        known += [draft[0], *[(token + 1) % VOCAB for token in draft[1:]]]
        assert [token for token, _ in propose(drafter, RowText(tokens=known, prompt_len=9), nodes=6)[0]] == (
            continue_plainly(DRAFT_LAW, known, 6)
        )


def test_accepted_tree_paths_are_moved_into_place() -> None:
    options = ModelDrafterOptions(branching=(2, 2, 2))
    drafter = build_model_drafter(options)
    known = list(TEXT)
    for leaf in (2, 5, 6, 4, 0):
        drafts = propose(drafter, RowText(tokens=known, prompt_len=9), nodes=8, depth=3)[0]
        cold = propose(build_model_drafter(options), RowText(tokens=known, prompt_len=9), nodes=8, depth=3)[0]
        assert drafts == cold
        path: list[int] = []
        node = min(leaf, len(drafts) - 1)
        while node >= 0:
            path.insert(0, drafts[node][0])
            node = drafts[node][1]
        known += [*path, 1]
    drafter._pages.check()
    # Five trees of three passes: the text, 1 + 2 nodes, 1 + 6 nodes. Of a path only a node of the last level (6) is
    # fed again, besides the token behind it.
    assert sum(stub_of(drafter).fed) == len(TEXT) + 5 * (3 + 7) + (1 + 1 + 2 + 1)


def test_the_model_as_its_own_drafter_has_every_draft_accepted() -> None:
    for params in (SamplingParams(temperature=0.0, max_tokens=25), SamplingParams(temperature=0.9, max_tokens=25)):
        engine = build_engine(build_model_drafter(law=LAW), gamma=5, nodes=5)
        last = run(engine, request("self", TEXT, params))["self", 0][-1]
        assert last.stats is not None
        assert last.stats.tau == 6.0


def test_rows_catch_up_in_one_pass_per_level() -> None:
    drafter = build_model_drafter()
    rows = [RowText(tokens=[*TEXT, row], row=row) for row in range(4)]
    propose(drafter, *rows, nodes=3)
    assert stub_of(drafter).num_passes == 3
    assert stub_of(drafter).fed == [4 * 11, 4, 4]


def test_long_texts_are_caught_up_within_the_steps_budget() -> None:
    drafter = build_model_drafter(ModelDrafterOptions(max_step_tokens=32))
    text = (TEXT * 10)[:100]
    row = RowText(tokens=text, prompt_len=99)
    for _ in range(3):
        assert propose(drafter, row, nodes=2) == [[]]
    assert len(propose(drafter, row, nodes=2)[0]) == 2
    assert max(stub_of(drafter).fed) <= 32


def test_rows_without_budget_are_fed_only_when_they_fall_behind() -> None:
    drafter = build_model_drafter()
    text = TEXT * 20
    propose(drafter, RowText(tokens=text[: LAZY - 1], prompt_len=9), nodes=0)
    assert stub_of(drafter).num_passes == 0
    propose(drafter, RowText(tokens=text[: LAZY + 1], prompt_len=9), nodes=0)
    assert stub_of(drafter).fed == [LAZY + 1]


def test_rows_that_want_no_speculation_are_never_fed() -> None:
    drafter = build_model_drafter()
    propose(drafter, RowText(tokens=TEXT * 20, params=SamplingParams(speculate=False)), nodes=4)
    assert stub_of(drafter).num_passes == 0


def test_rows_of_one_tenant_share_the_drafters_prefix_pages() -> None:
    drafter = build_model_drafter()
    prompt = TEXT * 4
    propose(drafter, RowText(tokens=prompt, tenant="a", prompt_len=40), nodes=1)
    propose(drafter, RowText(tokens=[*prompt, 1], tenant="a", prompt_len=40), nodes=1)
    forget_all(drafter, 0)
    fed = []
    for row, tenant in ((1, "a"), (2, "b")):
        propose(drafter, RowText(tokens=prompt, row=row, tenant=tenant), nodes=1)
        fed.append(stub_of(drafter).fed[-1])
    assert fed == [len(prompt) - 36, len(prompt)]


def test_a_full_drafter_cache_costs_drafts_of_some_rows_only() -> None:
    drafter = build_model_drafter(num_pages=5)
    rows = [RowText(tokens=TEXT, row=row, seed=row, tenant=f"{row}") for row in range(2)]
    drafts = propose(drafter, *rows, nodes=3)
    assert sorted(len(draft) for draft in drafts) == [0, 3]
    forget_all(drafter, 0, 1)
    drafter._pages.check()
    assert len(propose(drafter, rows[0], nodes=3)[0]) == 3


def test_a_text_longer_than_the_drafters_context_is_not_drafted_for() -> None:
    target = StubTarget(DRAFT_LAW, vocab_size=VOCAB, num_pages=64, page_size=4, max_positions=12)
    drafter = ModelDrafter(target=target, pages=build_model_drafter(num_pages=64)._pages, vocab_size=VOCAB)
    assert [len(propose(drafter, RowText(tokens=range(length)), nodes=6)[0]) for length in (10, 12, 13)] == [2, 0, 0]


def test_ids_beyond_the_targets_vocabulary_are_not_drafted() -> None:
    wide = hashed_law(VOCAB + 40)
    drafter = build_model_drafter(law=wide, vocab_size=VOCAB + 40)
    narrow = ModelDrafter(target=drafter._target, pages=drafter._pages, vocab_size=VOCAB)
    for last in range(30):
        drafts = propose(narrow, RowText(tokens=[*TEXT, last], row=last), nodes=4)[0]
        assert drafts
        assert max(token for token, _ in drafts) < VOCAB


def test_a_path_ends_where_it_is_not_expected_to_stand() -> None:
    sure = propose(build_model_drafter(ModelDrafterOptions(min_confidence=0.3)), RowText(tokens=TEXT), nodes=8)[0]
    proposal = build_model_drafter().propose(*_step(RowText(tokens=TEXT), nodes=8, depth=8))
    assert proposal.confidence is not None
    assert len(sure) == int((proposal.confidence >= 0.3).sum()) < 8


def test_sampled_drafts_report_laws_and_no_confidence() -> None:
    drafter = build_model_drafter(ModelDrafterOptions(is_sampled=True))
    row = RowText(tokens=TEXT, params=SamplingParams(temperature=1.0))
    proposal = drafter.propose(*_step(row, nodes=3, depth=3))
    assert proposal.laws is not None
    assert proposal.laws.of.tolist() == [0, 1, 2]
    assert proposal.confidence is None
    assert drafter.needs.is_sampled


def test_greedy_rows_beside_sampled_ones_stay_deterministic() -> None:
    drafter = build_model_drafter(ModelDrafterOptions(is_sampled=True, heat=DraftHeat(temperature=0.5)))
    rows = [RowText(tokens=TEXT), RowText(tokens=TEXT, row=1, params=SamplingParams(temperature=1.0))]
    batch = batch_for(*rows)
    laws = drafter.propose(batch, plan_for(batch, 2)).laws
    assert laws is not None
    assert laws.of.tolist() == [-1, -1, 0, 1]


def test_a_pass_that_fails_leaves_the_drafter_usable() -> None:
    drafter = build_model_drafter()
    target = stub_of(drafter)
    row = RowText(tokens=TEXT)
    submit = target.submit
    for failing in (1, 3):
        calls = iter(range(10))

        def broken(batch, proposal, failing=failing, calls=calls):  # type: ignore[no-untyped-def]
            if next(calls) == failing:
                raise RuntimeError("out of luck")
            return submit(batch, proposal)

        target.submit = broken  # type: ignore[method-assign]
        with pytest.raises(RuntimeError):
            propose(drafter, row, nodes=5)
    target.submit = submit  # type: ignore[method-assign]
    assert [token for token, _ in propose(drafter, row, nodes=5)[0]] == continue_plainly(DRAFT_LAW, TEXT, 5)
    drafter._pages.check()


@pytest.mark.parametrize("options", [{"branching": (2, 0)}, {"is_sampled": True, "min_confidence": 0.2}])
def test_options_that_cannot_work_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"branching|min_confidence"):
        ModelDrafterOptions(**options)  # type: ignore[arg-type]
