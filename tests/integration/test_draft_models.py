"""A second model that drafts: the same, a stranger, one with another tokenizer, as chain and as tree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paradraft import LLM, SamplingParams
from paradraft.core.errors import AlignmentError, ConfigError, ModelError
from paradraft.core.records import Origin
from paradraft.models.tiny import write_tiny_model

PROMPTS = ["one two one two one", "Grüße, 漢字 🙂", "x"]
OPTIONS = {"dtype": "fp32", "kv_tokens": 2048, "adaptive": False, "seed": 3}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("target"), "llama", 1)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("stranger"), "qwen3", 2)


@pytest.fixture(scope="module")
def foreigner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its ids are another order of the same bytes, and some are missing."""
    folder = write_tiny_model(tmp_path_factory.mktemp("foreigner"), "llama", 1)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    special = {entry["content"] for entry in content["added_tokens"]}
    letters = [spelling for spelling in content["model"]["vocab"] if spelling not in special]
    moved = dict(zip(letters, range(258, 258 - len(letters), -1), strict=True))
    content["model"]["vocab"] = {
        spelling: moved.get(spelling, token) for spelling, token in content["model"]["vocab"].items()
    }
    path.write_text(json.dumps(content))
    return folder


def answers(model: Path, params: SamplingParams, **options: object) -> list[tuple[int, ...]]:
    with LLM(str(model), **{**OPTIONS, **options}) as llm:
        return [result.choices[0].token_ids for result in llm.generate(PROMPTS, params)]


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"draft_branching": (3, 2, 2)},
        {"draft_temperature": 0.3},
        {"draft_eos_temperature": 0.7},
        {"gamma": 1},
    ],
    ids=str,
)
def test_no_draft_model_changes_a_token(
    target: Path, stranger: Path, temperature: float, options: dict[str, object]
) -> None:
    params = SamplingParams(temperature=temperature, max_tokens=24)
    plain = answers(target, params, drafter="none")
    assert answers(target, params, drafter=str(stranger), **options) == plain
    assert answers(target, params, drafter=str(target), **options) == plain


@pytest.mark.parametrize("gamma", [1, 2, 5, 8])
def test_the_model_as_its_own_drafter_commits_gamma_plus_one_tokens_a_pass(target: Path, gamma: int) -> None:
    params = SamplingParams(temperature=0.0, max_tokens=60, ignore_eos=True)
    with LLM(str(target), drafter=str(target), gamma=gamma, **OPTIONS) as llm:
        for result in llm.generate(PROMPTS, params):
            stats = result.choices[0].stats
            assert stats.tau == gamma + 1
            assert stats.acceptance_rate == 1.0


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_at_a_temperature_its_own_drafter_is_coupled_and_still_always_right(target: Path, temperature: float) -> None:
    params = SamplingParams(temperature=temperature, top_k=20, max_tokens=40, ignore_eos=True)
    with LLM(str(target), drafter=str(target), gamma=4, **OPTIONS) as llm:
        stats = [result.choices[0].stats for result in llm.generate(PROMPTS, params)]
    assert sum(each.accepted for each in stats) >= 0.9 * sum(each.drafted for each in stats)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_mapped_vocabulary_is_lossless_and_useful(target: Path, foreigner: Path, temperature: float) -> None:
    params = SamplingParams(temperature=temperature, max_tokens=24)
    plain = answers(target, params, drafter="none")
    assert answers(target, params, drafter=str(foreigner), draft_vocabulary="mapped") == plain


def test_another_vocabulary_is_refused_with_both_spellings_and_the_remedy(target: Path, foreigner: Path) -> None:
    with pytest.raises(AlignmentError, match="ids differ") as caught:
        LLM(str(target), drafter=str(foreigner), **OPTIONS)
    assert "draft_vocabulary=mapped" in caught.value.remedy


@pytest.mark.parametrize("rule", ["rejection", "block", "recursive"])
def test_sampling_rules_get_laws_and_accept_their_own_model(target: Path, rule: str) -> None:
    params = SamplingParams(temperature=1.0, max_tokens=40, ignore_eos=True)
    rates, origins = [], set()
    for draft_temperature in (1.0, 3.0):
        options = {**OPTIONS, "draft_temperature": draft_temperature}
        with LLM(str(target), drafter=str(target), gamma=3, rule=rule, **options) as llm:
            choices = [result.choices[0] for result in llm.generate(PROMPTS, params)]
        rates.append(sum(each.stats.accepted for each in choices) / sum(each.stats.drafted for each in choices))
        origins |= {origin for choice in choices for origin in choice.origins}
    assert rates[0] > 0.9
    assert rates[1] < rates[0]
    assert Origin.RECOVERED in origins


def test_rules_for_chains_refuse_trees_at_start(target: Path) -> None:
    with pytest.raises(ConfigError, match="draft_branching"):
        LLM(str(target), drafter=str(target), rule="block", draft_branching=(2, 2), **OPTIONS)


def test_an_unknown_drafter_is_named_with_the_choices(target: Path) -> None:
    with pytest.raises(ModelError, match="ngrm") as caught:
        LLM(str(target), drafter="ngrm", **OPTIONS)
    assert "ngram" in caught.value.remedy
