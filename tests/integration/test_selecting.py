"""Uncertain positions through the whole product: the untrained selector, a fitted one, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paradraft import LLM, SamplingParams
from paradraft.core.errors import ConfigError, ModelError
from paradraft.drafters.guard import GuardedDrafter
from paradraft.drafters.neural.uncertainty import UncertaintyDrafter
from paradraft.models.tiny import write_tiny_model
from paradraft.nets.networks.selector import SelectorFit, fit_selector

PROMPTS = ["one two one two one two one", "a b a b a b a b", "x y z x y z x y z x"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("selecting") / "target", "llama", 1)


def engine(folder: Path, **options: Any) -> LLM:
    return LLM(str(folder), **{"dtype": "fp32", "kv_tokens": 4096, "seed": 1, "adaptive": False, **options})


def shaped(llm: LLM) -> UncertaintyDrafter:
    guard = llm.engine.drafter
    assert isinstance(guard, GuardedDrafter)
    assert not guard.failures, guard.last_reason
    assert isinstance(guard.inner, UncertaintyDrafter)
    return guard.inner


def texts(llm: LLM, temperature: float = 0.0) -> list[str]:
    params = SamplingParams(temperature=temperature, max_tokens=40, ignore_eos=True)
    return [result.text for result in llm.generate(PROMPTS, params)]


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("drafter", ["suffix", "recent", "ngram"])
def test_trees_at_uncertain_positions_change_no_answer(folder: Path, drafter: str, temperature: float) -> None:
    # Threshold 0: every position is uncertain; 100: none is.
    with engine(folder, drafter="none") as plain:
        expected = texts(plain, temperature)
    counts = {}
    for threshold in (0.0, 100.0):
        with engine(folder, drafter=drafter, draft_selector="entropy", draft_threshold=threshold) as llm:
            assert texts(llm, temperature) == expected
            counts[threshold] = shaped(llm).counts
    assert counts[0.0].nodes > 0
    assert counts[0.0].node_share > 0.9
    assert counts[100.0].node_share == 0.0


def test_a_selector_is_fitted_on_what_a_run_logged_and_used_by_the_next(folder: Path, tmp_path: Path) -> None:
    with engine(folder, drafter="suffix", draft_selector="entropy") as llm:
        drafter = shaped(llm)
        drafter.start_log(2000)
        texts(llm, 1.0)
        features, surprises = drafter.take_log()
        [layer] = drafter.needs.entropy_layers
    assert len(surprises) > 50
    path = tmp_path / "selector.safetensors"
    fit_selector(features, surprises, SelectorFit(epochs=2)).net.save(
        path, layer=layer, heads=features.shape[1] - 4, threshold=1.8
    )
    with engine(folder, drafter="suffix", draft_selector=str(path)) as fitted, engine(folder, drafter="none") as plain:
        assert texts(fitted) == texts(plain)
        assert shaped(fitted).counts.positions > 0


def test_what_does_not_go_together_is_refused_with_the_reason(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="checks chains"):
        engine(folder, draft_selector="entropy", rule="block")
    with pytest.raises(ConfigError, match="does not tell its guesses"):
        engine(folder, draft_selector="entropy", drafter="early-exit", draft_layers=1)
    with pytest.raises(ModelError, match="cannot be read"):
        engine(folder, draft_selector=str(tmp_path / "missing.safetensors"))
    with pytest.raises(ConfigError, match="draft_threshold"):
        engine(folder, draft_selector="entropy", draft_threshold=-1.0)
