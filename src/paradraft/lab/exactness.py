"""Do all ways of speculating give the very tokens of plain decoding? Every drafter, gamma, order and number of rows.

The rule: with the coupled rule (and at temperature 0 with any exact one) every answer equals plain decoding's, token
by token. A first difference is forgiven, and counted, only as a near-tie within the bound of the dtype.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from paradraft.core.sampling import SamplingParams
from paradraft.lab.near_ties import Difference, explain, is_near_tie
from paradraft.lab.ports import Progress, Speaker, unwatched
from paradraft.lab.prompts import PromptSet

PEER = "transformers"
_ORDERS = ("forward", "backward", "shuffled")


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One way of answering all prompts."""

    name: str
    speaker: Speaker
    temperature: float
    gamma: int  # 0: plain decoding
    rows: int  # prompts answered together
    order: str  # of the prompts


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult:
    """How a case compares with plain decoding, one row at a time."""

    name: str
    temperature: float
    gamma: int
    rows: int
    order: str
    num_prompts: int
    num_equal: int
    near_ties: tuple[Difference, ...]
    mismatches: tuple[Difference, ...]
    tau: float
    is_passed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What is asked of every case. `temperatures` with one seed per prompt."""

    prompt_set: PromptSet
    max_tokens: int
    bound: float  # largest logit margin of a near-tie
    seed: int = 0

    def params(self, index: int, case: Case) -> SamplingParams:
        """Return the parameters of a prompt in a case."""
        return SamplingParams(
            temperature=case.temperature,
            seed=self.seed + index,
            max_tokens=self.max_tokens,
            ignore_eos=True,
            gamma=case.gamma,
            speculate=case.gamma > 0,
        )


def check_exactness(
    plain: Speaker, cases: Sequence[Case], check: Check, *, progress: Progress = unwatched
) -> list[CaseResult]:
    """Run all cases; the reference of each temperature is decoded plainly, one prompt after another."""
    references: dict[float, list[tuple[int, ...]]] = {}
    results = []
    for done, case in enumerate(cases):
        progress(done, len(cases))
        if case.temperature not in references:
            reference = Case(
                name="plain", speaker=plain, temperature=case.temperature, gamma=0, rows=1, order="forward"
            )
            references[case.temperature] = _answers(reference, check)[0]
        results.append(_compare(plain, case, check, references[case.temperature]))
    progress(len(cases), len(cases))
    return results


def _compare(plain: Speaker, case: Case, check: Check, expected: Sequence[tuple[int, ...]]) -> CaseResult:
    answers, tau = _answers(case, check)
    found = []
    for index, prompt in enumerate(check.prompt_set.prompts):
        difference = explain(
            plain,
            prompt.id,
            prompt.token_ids,
            check.params(index, case),
            expected=expected[index],
            actual=answers[index],
        )
        if difference:
            found.append(difference)
    mismatches = tuple(difference for difference in found if not is_near_tie(difference, check.bound))
    return CaseResult(
        name=case.name,
        temperature=case.temperature,
        gamma=case.gamma,
        rows=case.rows,
        order=case.order,
        num_prompts=len(answers),
        num_equal=len(answers) - len(found),
        near_ties=tuple(difference for difference in found if difference not in mismatches),
        mismatches=mismatches,
        tau=tau,
        is_passed=not mismatches,
    )


def _answers(case: Case, check: Check) -> tuple[list[tuple[int, ...]], float]:
    """Return the answers by prompt, and tau over all of them."""
    prompts = check.prompt_set.prompts
    order = ordered(len(prompts), case.order)
    answers: list[tuple[int, ...]] = [()] * len(prompts)
    rounds = tokens = 0
    for first in range(0, len(order), case.rows):
        group = order[first : first + case.rows]
        params = [check.params(index, case) for index in group]
        results = case.speaker.generate([list(prompts[index].token_ids) for index in group], params)
        for index, result in zip(group, results, strict=True):
            answers[index] = result.choices[0].token_ids
            rounds += result.choices[0].stats.rounds
            tokens += result.choices[0].stats.round_tokens
    return answers, tokens / rounds if rounds else 1.0


def ordered(count: int, order: str) -> list[int]:
    """Return 0 .. count-1 forward, backward or shuffled (the same way each time)."""
    indices = list(range(count))
    if order == "backward":
        return indices[::-1]
    if order == "shuffled":
        random.Random(count).shuffle(indices)
    return indices


def cases_of(
    name: str,
    speaker: Speaker,
    *,
    gammas: Sequence[int],
    temperatures: Sequence[float],
    rows: int,
) -> list[Case]:
    """Return the cases of one drafter.

    Greedy: every gamma, alone and in batches of every order. Sampled: the shortest and the longest gamma alone, the
    longest in batches.
    """
    return [
        Case(name=name, speaker=speaker, temperature=temperature, gamma=gamma, rows=number, order=order)
        for temperature in temperatures
        for gamma, number, order in _ways(gammas, rows, is_greedy=temperature == 0.0)
    ]


def _ways(gammas: Sequence[int], rows: int, *, is_greedy: bool) -> list[tuple[int, int, str]]:
    alone = gammas if is_greedy else dict.fromkeys((gammas[0], gammas[-1]))
    together = gammas if is_greedy else gammas[-1:]
    return [(gamma, 1, "forward") for gamma in alone] + [
        (gamma, rows, order) for gamma in together for order in _ORDERS
    ]
