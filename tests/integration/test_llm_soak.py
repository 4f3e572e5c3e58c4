"""Random settings and requests on networks of every family: drafts, trees, pages and preemptions change nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from paradraft import LLM, SamplingParams
from paradraft.core.events import TokenLogprobs
from paradraft.engine.results import Completion, GenerationResult
from paradraft.models.tiny import write_tiny_model

STEM = [3 + at * at % 250 for at in range(40)]  # prompts share beginnings, longer than some families' windows
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "smollm3")


def random_request(rng: random.Random) -> tuple[list[int], SamplingParams]:
    prompt = STEM[: rng.choice([0, 4, 17, 33])] + [rng.randrange(3, 259) for _ in range(rng.randint(1, 10))]
    params = SamplingParams(
        temperature=rng.choice([0.0, 0.0, 0.8]),
        max_tokens=rng.randint(1, 30),
        seed=rng.randrange(100),
        n=rng.choice([1, 1, 2]),
        frequency_penalty=rng.choice([0.0, 0.5]),
        logprobs=rng.choice([None, 1]),
        prompt_logprobs=rng.choice([None, None, 1]),
        stop=rng.choice([(), ("a",), ("e", "bc")]),
    )
    return prompt, params


def random_options(rng: random.Random, drafters: Sequence[str]) -> dict[str, object]:
    drafter = rng.choice(drafters)
    is_model = drafter not in ("suffix", "ngram")
    return {
        "drafter": drafter,
        "draft_branching": (3, 2, 2) if is_model and rng.random() < 0.6 else (),
        "page_size": rng.choice([1, 4, 16]),
        "kv_tokens": rng.choice([96, 128, 300]),
        "max_rows": rng.choice([2, 4, 6]),
        "max_step_tokens": rng.choice([5, 16, 512]),
        "gamma": rng.choice([2, 5, 8]),
        "adaptive": rng.random() < 0.3,
    }


def told(choice: Completion) -> tuple[object, ...]:
    return choice.token_ids, choice.text, choice.finish_reason, choice.stop_reason, choice.error


def logprobs_of(result: GenerationResult) -> list[TokenLogprobs]:
    entries = [entry for choice in result.choices for entry in choice.logprobs or ()]
    return entries + [entry for entry in result.prompt_logprobs or () if entry is not None]


@pytest.mark.parametrize("family", FAMILIES)
def test_random_requests_in_a_crowd_are_answered_as_alone_and_plainly(family: str, tmp_path: Path) -> None:
    folder = str(write_tiny_model(tmp_path / family, family, 1))
    stranger = str(write_tiny_model(tmp_path / "other", "llama", 2))
    rng = random.Random(family)
    requests = [random_request(rng) for _ in range(9)]
    with LLM(folder, dtype="fp32", drafter="none", prefix_caching=False, max_rows=1, kv_tokens=512) as plain:
        expected = [plain.generate([prompt], params)[0] for prompt, params in requests]
    for _ in range(2):
        with LLM(folder, dtype="fp32", **random_options(rng, ["suffix", "ngram", folder, stranger])) as llm:
            prompts, params = [prompt for prompt, _ in requests], [each for _, each in requests]
            results = llm.generate(prompts, params)
            llm.engine.pages.check()
            assert llm.engine.pages.counts().held == 0
        for result, alone in zip(results, expected, strict=True):
            assert [told(choice) for choice in result.choices] == [told(choice) for choice in alone.choices]
            for ours, theirs in zip(logprobs_of(result), logprobs_of(alone), strict=True):
                assert ours.chosen.token == theirs.chosen.token
                assert ours.chosen.logprob == pytest.approx(theirs.chosen.logprob, abs=1e-4)
