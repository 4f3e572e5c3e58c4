"""On the native core every way of answering gives the very tokens of plain decoding, in bf16 as well as in fp32."""

from __future__ import annotations

from pathlib import Path

import pytest

from paradraft import LLM, SamplingParams
from paradraft.core.errors import ConfigError
from paradraft.core.events import TokenLogprobs
from paradraft.engine.results import GenerationResult
from paradraft.models.tiny import write_tiny_model
from paradraft.native.library import LIBRARY_VARIABLE
from support.native import needs_native

PROMPTS = ["one two one two one two one", "Grüße, 漢字 🙂", "x", "the cat sat on the mat, the cat sat on the"]
OPTIONS = {"runner": "native", "kv_tokens": 2048, "adaptive": False, "seed": 3, "threads": 1, "gamma": 4}
DRAFTERS = {
    "ngram": {"drafter": "ngram"},
    "suffix": {"drafter": "suffix"},
    "merged": {"drafter": "merged", "draft_sources": ("suffix", "recent", "table"), "draft_table": "none"},
    "early-exit": {"drafter": "early-exit", "draft_layers": 2},
    "early-exit in trees": {"drafter": "early-exit", "draft_layers": 2, "draft_branching": (3, 2, 2)},
}
WAYS = {
    "gamma 1": {"gamma": 1},
    "gamma 7": {"gamma": 7},
    "adaptive": {"adaptive": True},
    "prompts in chunks of 3": {"max_step_tokens": 3},
    "pages of 5": {"page_size": 5},
    "pages of 32": {"page_size": 32},
    "two threads": {"threads": 2},
    "alone": {"max_rows": 1},
    "too few pages": {"kv_tokens": 160, "max_model_len": 128, "page_size": 4},
}
Answer = tuple[tuple[int, ...], tuple[TokenLogprobs, ...]]
pytestmark = needs_native


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("target"), "qwen2", 1)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("stranger"), "qwen3", 2)


def params_of(temperature: float) -> SamplingParams:
    return SamplingParams(temperature=temperature, max_tokens=40, ignore_eos=True, logprobs=2)


def told(result: GenerationResult) -> Answer:
    """Return the tokens of an answer, and the log-probabilities bit for bit: a text alone forgives much."""
    choice = result.choices[0]
    assert choice.logprobs is not None
    assert len(choice.logprobs) == len(choice.token_ids) == 40
    return choice.token_ids, choice.logprobs


def answers(folder: Path, temperature: float, **options: object) -> list[Answer]:
    with LLM(str(folder), **{**OPTIONS, **options}) as llm:
        return [told(result) for result in llm.generate(PROMPTS, params_of(temperature))]


def plain(folder: Path, temperature: float, dtype: str) -> list[Answer]:
    """Return what each prompt gives alone, decoded plainly and with nothing reused."""
    with LLM(str(folder), drafter="none", dtype=dtype, prefix_caching=False, **OPTIONS) as llm:
        return [told(llm.generate(prompt, params_of(temperature))[0]) for prompt in PROMPTS]


@pytest.mark.parametrize("temperature", [0.0, 2.0])
@pytest.mark.parametrize("dtype", ["bf16", "fp32", "int8", "int4"])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_no_drafter_changes_a_token(folder: Path, drafter: str, dtype: str, temperature: float) -> None:
    assert answers(folder, temperature, dtype=dtype, **DRAFTERS[drafter]) == plain(folder, temperature, dtype)


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_a_draft_model_on_the_same_core_changes_no_token(folder: Path, stranger: Path, dtype: str) -> None:
    drafted = answers(folder, 2.0, dtype=dtype, drafter=str(stranger), draft_branching=(2, 2))
    assert drafted == plain(folder, 2.0, dtype)


@pytest.mark.parametrize("temperature", [0.0, 2.0])
@pytest.mark.parametrize("way", WAYS)
def test_no_way_of_running_changes_a_token(folder: Path, way: str, temperature: float) -> None:
    options = {**DRAFTERS["early-exit in trees"], **WAYS[way]}
    assert answers(folder, temperature, dtype="bf16", **options) == plain(folder, temperature, "bf16")


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_a_known_beginning_and_a_second_asking_change_no_token(folder: Path, temperature: float) -> None:
    expected = plain(folder, temperature, "bf16")
    with LLM(str(folder), dtype="bf16", **{**OPTIONS, **DRAFTERS["suffix"], "page_size": 4}) as llm:
        for _ in range(3):
            results = llm.generate(PROMPTS, params_of(temperature))
            assert [told(result) for result in results] == expected
        assert results[0].choices[0].stats.cached_prompt_tokens > 0


def test_rows_that_lose_their_pages_come_back_to_the_same_tokens(folder: Path) -> None:
    options = {**OPTIONS, **DRAFTERS["early-exit"], **WAYS["too few pages"]}
    with LLM(str(folder), dtype="bf16", **options) as llm:
        results = llm.generate(PROMPTS, params_of(0.0))
        assert max(result.choices[0].stats.preemptions for result in results) > 0
    assert [told(result) for result in results] == plain(folder, 0.0, "bf16")


def test_the_start_up_line_names_the_core(folder: Path) -> None:
    with LLM(str(folder), dtype="bf16", **OPTIONS) as llm:
        assert "the native core (" in llm.summary()
        assert "Not native" not in llm.summary()


def test_the_start_up_line_says_why_torch_runs_a_model_that_was_left_to_us(folder: Path) -> None:
    with LLM(str(folder), dtype="fp16", **{**OPTIONS, "runner": "auto"}) as llm:
        assert llm.summary().endswith("Not native: it computes in fp32, bf16, int8, int4, and dtype is fp16.")
    with LLM(str(folder), dtype="fp16", **{**OPTIONS, "runner": "torch"}) as llm:
        assert "Not native" not in llm.summary()


def test_a_library_that_is_not_there_leaves_everything_to_torch(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(LIBRARY_VARIABLE, str(tmp_path / "absent.so"))
    with LLM(str(folder), dtype="fp32", **{**OPTIONS, "runner": "auto"}) as llm:
        assert "on torch" in llm.summary()
        assert "was not built" in llm.summary()
        assert len(llm.generate("one", params_of(0.0))[0].choices[0].token_ids) == 40
    with pytest.raises(ConfigError, match=r"runner='native' cannot serve .*was not built"):
        LLM(str(folder), dtype="fp32", **OPTIONS)
