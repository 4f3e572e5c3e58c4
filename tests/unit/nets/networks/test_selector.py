from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from paradraft.core.errors import ConfigError, ModelError
from paradraft.drafters.neural.selector import THRESHOLD, read_selector
from paradraft.nets.networks.selector import FitResult, SelectorFit, SelectorNet, fit_selector

HEADS, FEATURES = 3, 7


def positions(count: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Surprise that follows from one head's entropy and the drafter's best share, by a bend that no line has."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, FEATURES)).astype(np.float32)
    surprises = np.abs(features[:, 1]) + 0.5 * features[:, HEADS] + 0.05 * rng.normal(size=count)
    return features, surprises.astype(np.float32)


def fitted(**options: int) -> FitResult:
    return fit_selector(*positions(), SelectorFit(epochs=60, batch=64, **options))


def test_a_fitted_selector_explains_positions_it_has_not_seen() -> None:
    assert fitted().explained > 0.8


def test_surprise_that_nothing_foretells_is_not_explained() -> None:
    features, surprises = positions()
    shuffled = np.random.default_rng(1).permutation(surprises)
    assert fit_selector(features, shuffled, SelectorFit(epochs=5)).explained < 0.2


def test_the_same_positions_give_the_same_network_and_leave_the_generator_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second = fitted().net.state_dict(), fitted().net.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(torch.get_rng_state(), before)


def test_serving_reads_what_was_fitted_and_scores_alike(tmp_path: Path) -> None:
    net = fitted().net
    net.save(tmp_path / "selector.safetensors", layer=29, heads=HEADS, threshold=1.25)
    selector = read_selector(tmp_path / "selector.safetensors")
    assert (selector.layer, selector.threshold) == (29, 1.25)
    assert read_selector(tmp_path / "selector.safetensors", 0.5).threshold == 0.5
    features, _ = positions(20, seed=3)
    with torch.no_grad():
        expected = net(torch.from_numpy(features)).numpy()
    assert [selector.expected_surprise(each) for each in features] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("count", [0, 31])
def test_too_few_positions_are_refused_by_number(count: int) -> None:
    with pytest.raises(ConfigError, match=f"{count} positions"):
        fit_selector(*positions(count))


def test_values_that_are_no_numbers_and_shapes_that_do_not_fit_are_refused() -> None:
    features, surprises = positions(64)
    with pytest.raises(ConfigError, match="belong together"):
        fit_selector(features, surprises[:-1])
    features[3, 2] = np.nan
    with pytest.raises(ConfigError, match="not numbers"):
        fit_selector(features, surprises)


def written(path: Path, change: dict[str, torch.Tensor | None], **facts: str) -> Path:
    from safetensors.torch import save_file

    state = SelectorNet(torch.zeros(FEATURES), torch.ones(FEATURES), 5).state_dict()
    tensors = {name: tensor for name, tensor in {**state, **change}.items() if tensor is not None}
    save_file(tensors, path, metadata={"layer": "29", "heads": str(HEADS), **facts})
    return path


DAMAGES: dict[str, tuple[dict[str, torch.Tensor | None], dict[str, str], str]] = {
    "missing": ({"hidden.weight": None}, {}, r"hidden\.weight of shape None"),
    "shape": ({"out.weight": torch.zeros(1, 6)}, {}, r"out\.weight of shape"),
    "other heads": ({}, {"heads": "4"}, "mean of shape"),
    "no layer": ({}, {"layer": "-1"}, "layer='-1'"),
    "huge layer": ({}, {"layer": "9" * 30}, "layer="),
    "nan": ({"hidden.bias": torch.full((5,), torch.nan)}, {}, "not numbers"),
    "deviation": ({"deviation": torch.zeros(FEATURES)}, {}, "deviation"),
    "threshold": ({}, {"threshold": "high"}, "threshold='high'"),
    "empty": ({"hidden.bias": torch.zeros(0)}, {}, "hidden layer of 0"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    change, facts, reason = DAMAGES[name]
    with pytest.raises(ModelError, match=reason):
        read_selector(written(tmp_path / "selector.safetensors", change, **facts))


def test_a_file_cut_short_or_lying_about_its_length_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "selector.safetensors", {})
    content = path.read_bytes()
    header = json.dumps({"mean": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    for broken in (content[:-5], content[:20], b"", struct.pack("<Q", len(header)) + header):
        path.write_bytes(broken)
        with pytest.raises(ModelError, match="cannot be read"):
            read_selector(path)
    assert read_selector(written(path, {})).threshold == THRESHOLD
