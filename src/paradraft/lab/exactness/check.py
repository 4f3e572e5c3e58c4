"""Answers all prompts in one way and compares them with plain decoding's."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from paradraft.core.sampling import SamplingParams
from paradraft.lab.exactness.cases import Case, ordered
from paradraft.lab.near_ties import Difference, explain, is_near_tie
from paradraft.lab.ports import Plain, Speaker
from paradraft.lab.prompts import PromptSet

Answers = tuple[tuple[int, ...], ...]  # token ids by prompt


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """What plain decoding says at a temperature, one prompt after another."""

    temperature: float
    answers: Answers
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult:
    """How a case compares with the reference."""

    case: Case
    num_prompts: int
    num_equal: int
    near_ties: tuple[Difference, ...]
    mismatches: tuple[Difference, ...]
    tau: float
    seconds: float

    @property
    def is_passed(self) -> bool:
        """Whether all that differs is near-ties."""
        return not self.mismatches


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What is asked in every case. Each prompt has a seed of its own."""

    prompt_set: PromptSet
    max_tokens: int
    bound: float  # largest margin of a near-tie, in logits
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


def decode_reference(plain: Plain, case: Case, check: Check) -> Reference:
    """Return the answers that all cases of the temperature are compared with."""
    start = perf_counter()
    answers, _ = _answers(plain, case, check)
    return Reference(temperature=case.temperature, answers=answers, seconds=perf_counter() - start)


def run_case(speaker: Speaker, plain: Plain, case: Case, check: Check, reference: Reference) -> CaseResult:
    """Answer all prompts with `speaker` and compare; `plain` measures the margins of what differs."""
    start = perf_counter()
    answers, tau = _answers(speaker, case, check)
    found = []
    for index, prompt in enumerate(check.prompt_set.prompts):
        difference = explain(
            plain,
            prompt.id,
            prompt.token_ids,
            check.params(index, case),
            expected=reference.answers[index],
            actual=answers[index],
        )
        if difference:
            found.append(difference)
    return CaseResult(
        case=case,
        num_prompts=len(answers),
        num_equal=len(answers) - len(found),
        near_ties=tuple(difference for difference in found if is_near_tie(difference, check.bound)),
        mismatches=tuple(difference for difference in found if not is_near_tie(difference, check.bound)),
        tau=tau,
        seconds=perf_counter() - start,
    )


def _answers(speaker: Speaker, case: Case, check: Check) -> tuple[Answers, float]:
    """Return the answers by prompt, and tau over all of them."""
    prompts = check.prompt_set.prompts
    order = ordered(len(prompts), case.order)
    answers: list[tuple[int, ...]] = [()] * len(prompts)
    rounds = tokens = 0
    for first in range(0, len(order), case.rows):
        group = order[first : first + case.rows]
        params = [check.params(index, case) for index in group]
        results = speaker.generate([list(prompts[index].token_ids) for index in group], params)
        for index, result in zip(group, results, strict=True):
            answers[index] = tuple(result.choices[0].token_ids)
            rounds += result.choices[0].stats.rounds
            tokens += result.choices[0].stats.round_tokens
    return tuple(answers), tokens / rounds if rounds else 1.0
