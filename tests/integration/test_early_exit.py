"""The target's own first layers as draft model."""

from __future__ import annotations

from pathlib import Path

import pytest

from paradraft import LLM, SamplingParams
from paradraft.core.errors import ConfigError
from paradraft.models.tiny import write_tiny_model

PROMPTS = ["one two one two one", "Grüße, 漢字 🙂", "x"]
OPTIONS = {"dtype": "fp32", "kv_tokens": 2048, "adaptive": False, "seed": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("target"), "llama", 1)


def answers(folder: Path, params: SamplingParams, **options: object) -> list[tuple[int, ...]]:
    with LLM(str(folder), **{**OPTIONS, **options}) as llm:
        return [result.choices[0].token_ids for result in llm.generate(PROMPTS, params)]


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("branching", [(), (2, 2)])
def test_drafting_with_the_first_layers_changes_no_token(
    folder: Path, temperature: float, branching: tuple[int, ...]
) -> None:
    params = SamplingParams(temperature=temperature, max_tokens=24)
    plain = answers(folder, params, drafter="none")
    drafted = answers(folder, params, drafter="early-exit", draft_layers=2, draft_branching=branching)
    assert drafted == plain


@pytest.mark.parametrize("family", ["llama", "mistral", "smollm3"])
def test_more_layers_agree_with_the_target_more_often(tmp_path: Path, family: str) -> None:
    folder = write_tiny_model(tmp_path / family, family, 1, {"num_hidden_layers": 8})
    params = SamplingParams(temperature=1.0, max_tokens=60, ignore_eos=True)  # greedy texts of such models only repeat
    accepted = []
    for count in (1, 7):
        with LLM(str(folder), drafter="early-exit", draft_layers=count, gamma=3, **OPTIONS) as llm:
            accepted.append(sum(result.choices[0].stats.accepted for result in llm.generate(PROMPTS, params)))
    assert accepted[1] > accepted[0]


def test_the_first_layers_take_no_memory_but_their_cache(folder: Path) -> None:
    with LLM(str(folder), drafter="early-exit", draft_layers=2, **OPTIONS) as llm:
        assert llm.engine.drafter.needs.sources == ("early-exit",)
        assert llm.engine.drafter.needs.extra_bytes == 2048 * 2 * (2 * 2 * 8 * 4)


def test_as_many_layers_as_the_model_has_are_refused_with_the_most_that_can_draft(folder: Path) -> None:
    with pytest.raises(ConfigError, match="3 of its 3 layers") as caught:
        LLM(str(folder), drafter="early-exit", draft_layers=3, **OPTIONS)
    assert "1 to 2" in caught.value.remedy
