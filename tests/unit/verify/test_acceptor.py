"""From scores to a verdict: positions, origins, histories inside a burst, mixed batches, broken input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray, IntArray, ints, starts_of
from paradraft.core.errors import ProtocolError, RequestRefused
from paradraft.core.records import Origin, Proposal, RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.noise import GumbelNoise
from paradraft.verify.rules import RULE_NAMES, make_rule
from support.steps import Draft, batch_of, chain, decide, decode, proposal_of, sampling_of, scores_of
from support.stub_target import StubScores, hashed_law

VOCAB = 16
LOGITS = hashed_law(VOCAB)
GREEDY = SamplingParams(temperature=0.0)
COUPLED = RuleAcceptor(make_rule("coupled"))
ORIGINS = {origin: int(origin) for origin in Origin}


def counting(prefix: tuple[int, ...]) -> FloatArray:
    """Want the token after the last one."""
    logits = np.zeros(VOCAB, dtype=np.float32)
    logits[(prefix[-1] + 1) % VOCAB] = 5.0
    return logits


def wants(*tokens: int) -> Callable[[tuple[int, ...]], FloatArray]:
    """Want these tokens, the first most, whatever came before."""

    def law(prefix: tuple[int, ...]) -> FloatArray:
        logits = np.zeros(VOCAB, dtype=np.float32)
        logits[list(tokens)] = 10.0 - np.arange(len(tokens))
        return logits

    return law


def greedy(*, prompt_len: int = 1, stop_ids: tuple[int, ...] = (), **params: Any) -> RowSampling:
    return sampling_of(SamplingParams(temperature=0.0, **params), prompt_len=prompt_len, stop_ids=stop_ids)


def test_acceptor_carries_the_rules_name_and_label() -> None:
    for name in RULE_NAMES:
        acceptor = RuleAcceptor(make_rule(name))
        assert (acceptor.name, acceptor.is_exact) == (name, make_rule(name).is_exact)


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_origins_tell_plain_drafted_recovered_and_bonus_apart(rule: str) -> None:
    drafts = [Draft(), chain(3, 4, 9), chain(3, 4, 5), chain(9)]
    verdict = decide(RuleAcceptor(make_rule(rule)), [[2]] * 4, [greedy()] * 4, drafts, counting)
    found = [(verdict.tokens_of(row).tolist(), verdict.origins_of(row).tolist()) for row in range(4)]
    plain, drafted = ORIGINS[Origin.PLAIN], ORIGINS[Origin.DRAFTED]
    recovered, bonus = ORIGINS[Origin.RECOVERED], ORIGINS[Origin.BONUS]
    assert found == [
        ([3], [plain]),
        ([3, 4, 5], [drafted, drafted, recovered]),
        ([3, 4, 5, 6], [drafted, drafted, drafted, bonus]),
        ([3], [recovered]),
    ]
    assert [verdict.path_of(row).tolist() for row in range(4)] == [[], [0, 1], [0, 1, 2], []]


def test_the_walk_does_not_stop_at_stop_ids() -> None:
    verdict = decide(COUPLED, [[2]], [greedy(stop_ids=(4,))], [chain(3, 4, 5)], counting)
    assert verdict.tokens.tolist() == [3, 4, 5, 6]


def test_a_row_in_the_middle_of_its_prompt_gets_no_tokens() -> None:
    whole = batch_of([[1, 2], [2, 3]], [greedy(), greedy()])
    batch = replace(whole, history=(ints([1, 2, 9, 9]), whole.history[1]), num_scored=ints([0, 1]))
    scores = StubScores([counting((2, 3))], starts_of([0, 1]), starts_of([1, 1]))
    verdict = COUPLED.accept(batch, Proposal.empty(2), scores)
    assert verdict.token_starts.tolist() == [0, 0, 1]
    assert verdict.tokens.tolist() == [4]
    assert verdict.failures == ()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_scores_of_prompt_positions_are_skipped(temperature: float) -> None:
    """With prompt logprobs all pending tokens are scored; the walk starts at the last of them."""
    sampling = sampling_of(SamplingParams(temperature=temperature), prompt_len=4)
    drafts = [chain(3), chain(int(LOGITS((4, 5, 6)).argmax()))]
    verdicts = []
    for num_scored in (1, 3):
        batch = batch_of([[1, 2, 3], [4, 5, 6]], [sampling] * 2, num_scored=num_scored)
        verdicts.append(COUPLED.accept(batch, proposal_of(drafts), scores_of(batch, drafts, LOGITS)))
    assert verdicts[0].tokens.tolist() == verdicts[1].tokens.tolist()
    assert verdicts[0].path.tolist() == verdicts[1].path.tolist()


class RecordingNoise(GumbelNoise):
    """Notes the positions of choices."""

    def __init__(self, seed: int, choice: int) -> None:
        super().__init__(seed, choice)
        self.positions: list[int] = []

    def choose(self, weights: np.ndarray, ids: IntArray | None, *, position: int, stream: int) -> int:
        self.positions.append(position)
        return super().choose(weights, ids, position=position, stream=stream)


def test_noise_is_keyed_by_the_position_of_the_token_being_chosen() -> None:
    noise = RecordingNoise(0, 0)
    keys = []

    def make(seed: int, choice: int) -> RecordingNoise:
        keys.append((seed, choice))
        return noise

    sampling = sampling_of(SamplingParams(temperature=0.01), prompt_len=2, seed=5, choice=3)
    decide(RuleAcceptor(make_rule("coupled"), noise=make), [[0, 1, 2]], [sampling], [chain(3, 4)], counting)
    assert keys == [(5, 3)]
    assert noise.positions == [3, 4, 5]


class Favourite:
    """A chooser that always wants one token and notes what it was asked; silent at some positions."""

    def __init__(self, token: int, silent: tuple[int, ...] = ()) -> None:
        self.token = token
        self.silent = silent
        self.asked: list[tuple[list[float], int]] = []

    def choose(self, logits: FloatArray, sampling: RowSampling, position: int) -> int | None:
        self.asked.append((logits.tolist(), position))
        return None if position in self.silent else self.token


def test_a_chooser_decides_for_sampled_rows_and_the_law_where_it_does_not_know() -> None:
    chooser = Favourite(9, silent=(4,))
    sampling = sampling_of(SamplingParams(temperature=0.01), prompt_len=1)
    acceptor = RuleAcceptor(make_rule("coupled"), chooser=chooser)
    verdict = decide(acceptor, [[0, 1, 2]], [sampling], [chain(9, 10, 9)], counting)
    assert verdict.tokens.tolist() == [9, 10, 9, 9]
    paths = ((0, 1, 2), (0, 1, 2, 9), (0, 1, 2, 9, 10), (0, 1, 2, 9, 10, 9))
    assert chooser.asked == [(counting(path).tolist(), 3 + at) for at, path in enumerate(paths)]


@pytest.mark.parametrize(
    ("rule", "params"),
    [
        ("coupled", {"temperature": 0.0}),
        ("coupled", {"temperature": 0.0, "logit_bias": {1: 1.0}}),
        ("coupled", {"logit_bias": {1: 1.0}}),
        ("coupled", {"repetition_penalty": 1.1}),
        ("coupled", {"frequency_penalty": 0.1}),
        ("coupled", {"min_tokens": 1}),
        ("rejection", {}),
        ("recursive", {}),
        ("block", {}),
        ("typical", {}),
    ],
)
def test_a_chooser_is_not_asked_where_more_than_raw_logits_counts(rule: str, params: dict[str, Any]) -> None:
    chooser = Favourite(9)
    sampling = sampling_of(SamplingParams(**params), prompt_len=1)
    expected = decide(RuleAcceptor(make_rule(rule)), [[0, 1, 2]], [sampling], [chain(3, 4)], counting)
    verdict = decide(RuleAcceptor(make_rule(rule), chooser=chooser), [[0, 1, 2]], [sampling], [chain(3, 4)], counting)
    assert verdict.tokens.tolist() == expected.tokens.tolist()
    assert not chooser.asked


def repeats(rule: str, **params: Any) -> list[list[int]]:
    """Tokens of plain and of speculative decoding where a favourite would repeat for ever."""
    law = wants(7, 3, 5)
    sampling = greedy(prompt_len=3, **params)
    acceptor = RuleAcceptor(make_rule(rule))
    drafters = (lambda known: Draft(), lambda known: chain(7, 7, 7, 7, 7))
    return [decode(acceptor, [7, 7, 7], sampling, law, 9, drafter) for drafter in drafters]


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_penalties_see_the_tokens_of_the_same_burst(rule: str) -> None:
    """The penalised token repeats inside one draft: it must fall exactly where plain decoding drops it."""
    results = {}
    for penalty in (-2.0, 0.6, 2.0):
        plain, drafted = repeats(rule, frequency_penalty=penalty)
        assert drafted == plain
        results[penalty] = plain
    assert results[-2.0] == [7] * 9
    assert results[0.6][:3] == [7, 7, 3]
    assert results[2.0] != results[0.6]
    for params in ({"repetition_penalty": 1.15}, {"presence_penalty": 1.5}, {"repetition_penalty": 0.9}):
        plain, drafted = repeats(rule, **params)
        assert drafted == plain


def same(draft: Draft, known: tuple[int, ...]) -> Draft:
    return draft


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_min_tokens_holds_inside_a_burst(temperature: float) -> None:
    """The target wants the end at once and the drafts say so; five other tokens come first, then the end may."""
    law = wants(2, 9)
    params = SamplingParams(temperature=temperature, min_tokens=5)
    for seed in range(20):
        sampling = sampling_of(params, prompt_len=1, seed=seed, stop_ids=(2,))
        for draft in (chain(2, 2, 2), chain(9, 9, 9, 9, 9, 2), chain(9, 2, 9)):
            tokens = decode(COUPLED, [1], sampling, law, 8, partial(same, draft))
            assert tokens == decode(COUPLED, [1], sampling, law, 8)
            assert 2 not in tokens[:5]
    assert decode(COUPLED, [1], greedy(min_tokens=5, stop_ids=(2,)), law, 8) == [9, 9, 9, 9, 9, 2, 2, 2]


@pytest.mark.parametrize("rule", ["coupled", "rejection", "recursive", "block"])
def test_a_banned_token_comes_neither_drafted_nor_recovered_nor_as_bonus(rule: str) -> None:
    sampling = [sampling_of(SamplingParams(logit_bias={3: -100.0}), prompt_len=1, seed=seed) for seed in range(150)]
    drafts = [chain(3), chain(9, 3), chain(9, 9), Draft()]
    for draft in drafts:
        verdict = decide(RuleAcceptor(make_rule(rule)), [[1]] * 150, sampling, [draft] * 150, wants(3, 9, 4))
        assert 3 not in verdict.tokens.tolist()


@pytest.mark.parametrize("rule", ["coupled", "rejection", "recursive", "block"])
def test_min_p_holds_at_every_position_and_spares_the_neighbour(rule: str) -> None:
    """A cut that leaves one legal token per position, beside rows without it."""
    strict, free = SamplingParams(min_p=0.9), SamplingParams(temperature=3.0)
    sampling = [sampling_of(strict if row % 2 else free, prompt_len=1, seed=row) for row in range(200)]
    drafts = [chain(4, 9, 6)] * 200
    verdict = decide(RuleAcceptor(make_rule(rule)), [[3]] * 200, sampling, drafts, counting)
    assert all(verdict.tokens_of(row).tolist() == [4, 5] for row in range(1, 200, 2))
    assert len({tuple(verdict.tokens_of(row).tolist()) for row in range(0, 200, 2)}) > 20


def test_greedy_and_sampled_rows_share_a_batch() -> None:
    params = [GREEDY, SamplingParams(), SamplingParams(temperature=0.0, repetition_penalty=1.3), GREEDY]
    sampling = [sampling_of(each, prompt_len=2, seed=row) for row, each in enumerate(params)]
    prompts = [[1, row] for row in range(4)]
    drafts = [chain(3, 4), chain(5), Draft(), chain(int(LOGITS((1, 3)).argmax()))]
    verdict = decide(COUPLED, prompts, sampling, drafts, LOGITS)
    for row in range(4):
        alone = decide(COUPLED, [prompts[row]], [sampling[row]], [drafts[row]], LOGITS)
        assert verdict.tokens_of(row).tolist() == alone.tokens.tolist()
        assert verdict.origins_of(row).tolist() == alone.origins.tolist()


class CountingScores(StubScores):
    """Counts what is asked for."""

    num_argmax = 0

    def argmax(self) -> IntArray:
        self.num_argmax += 1
        return super().argmax()


def counted(sampling: SamplingParams) -> int:
    batch = batch_of([[1]] * 3, [sampling_of(sampling, prompt_len=1)] * 3)
    scores = CountingScores([counting((1,))] * 3, starts_of([1] * 3), starts_of([1] * 3))
    COUPLED.accept(batch, Proposal.empty(3), scores)
    return scores.num_argmax


def test_argmax_is_asked_for_once_a_step_and_only_by_greedy_rows() -> None:
    assert counted(GREEDY) == 1
    assert counted(SamplingParams()) == 0


def test_ties_go_to_the_lowest_id() -> None:
    tied = wants()
    for sampling in (greedy(), greedy(logit_bias={5: 0.0})):
        assert decide(COUPLED, [[1]], [sampling], [chain(0, 1)], tied).tokens.tolist() == [0, 0]


@pytest.mark.parametrize("params", [GREEDY, SamplingParams(), SamplingParams(temperature=0.0, min_tokens=3)])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_broken_logits_fail_their_row_and_no_other(params: SamplingParams, bad: float) -> None:
    batch = batch_of([[1]] * 3, [sampling_of(params, prompt_len=1)] * 3)
    rows = [counting((1,)) for _ in range(3)]
    rows[1][4] = bad
    verdict = COUPLED.accept(batch, Proposal.empty(3), StubScores(rows, starts_of([1] * 3), starts_of([1] * 3)))
    assert [len(verdict.tokens_of(row)) for row in range(3)] == [1, 0, 1]
    ((index, why),) = verdict.failures
    assert index == 1
    assert "NaN" in why


def test_broken_logits_below_an_accepted_draft_are_noticed() -> None:
    def breaks(prefix: tuple[int, ...]) -> FloatArray:
        logits = counting(prefix)
        if len(prefix) > 2:
            logits[0] = np.nan
        return logits

    for params in (GREEDY, SamplingParams(temperature=0.1)):
        verdict = decide(COUPLED, [[1]], [sampling_of(params, prompt_len=1)], [chain(2, 3)], breaks)
        assert [index for index, _ in verdict.failures] == [0]
        assert len(verdict.tokens) == len(verdict.path) == 0


def test_broken_logits_where_no_walk_goes_do_no_harm() -> None:
    def breaks(prefix: tuple[int, ...]) -> FloatArray:
        return counting(prefix) * np.float32(np.nan if 9 in prefix else 1.0)

    for params in (GREEDY, SamplingParams(temperature=0.01)):
        verdict = decide(COUPLED, [[1]], [sampling_of(params, prompt_len=1)], [chain(9, 3)], breaks)
        assert verdict.tokens.tolist() == [2]


@pytest.mark.parametrize("counts", [[1], [2, 1], [1, 1, 1]])
def test_scores_that_do_not_fit_the_batch_are_refused(counts: list[int]) -> None:
    batch = batch_of([[1], [2]], [greedy()] * 2)
    scores = StubScores([counting((1,))] * sum(counts), starts_of(counts), starts_of(counts))
    with pytest.raises(ProtocolError, match="Scores start at"):
        COUPLED.accept(batch, Proposal.empty(2), scores)


def test_a_tree_that_the_rule_cannot_walk_fails_its_row() -> None:
    draft = Draft()
    draft.add(1, -1)
    draft.add(2, -1)
    sampling = [sampling_of(SamplingParams(), prompt_len=1)] * 2
    verdict = decide(RuleAcceptor(make_rule("block")), [[1], [1]], sampling, [chain(1), draft], LOGITS)
    ((index, why),) = verdict.failures
    assert index == 1
    assert "branches" in why
    assert len(verdict.tokens_of(0)) > 0


def test_the_greedy_rule_refuses_sampled_requests_at_admission() -> None:
    acceptor = RuleAcceptor(make_rule("greedy"))
    acceptor.check(greedy(), VOCAB)
    with pytest.raises(RequestRefused, match=r"temperature is 0\.5"):
        acceptor.check(sampling_of(SamplingParams(temperature=0.5), prompt_len=1), VOCAB)
    with pytest.raises(RequestRefused, match="logit_bias"):
        COUPLED.check(sampling_of(SamplingParams(logit_bias={VOCAB: 1.0}), prompt_len=1), VOCAB)


def test_no_rows_give_an_empty_verdict() -> None:
    batch = batch_of([], [])
    verdict = COUPLED.accept(batch, Proposal.empty(0), StubScores([], starts_of([]), starts_of([])))
    assert (verdict.token_starts.tolist(), verdict.tokens.tolist()) == ([0], [])


def test_asking_twice_gives_the_same_verdict() -> None:
    sampling = [sampling_of(SamplingParams(), prompt_len=1, seed=row) for row in range(20)]
    drafts = [chain(2, 3, 4)] * 20
    for rule in ("coupled", "rejection", "block", "recursive"):
        acceptor = RuleAcceptor(make_rule(rule))
        verdicts = [decide(acceptor, [[1]] * 20, sampling, drafts, LOGITS).tokens.tolist() for _ in range(2)]
        assert verdicts[0] == verdicts[1]
