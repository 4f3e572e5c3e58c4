from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ConfigError
from paradraft.core.records import Proposal, Verdict
from paradraft.scheduling.calibration import (
    Calibration,
    OnlineCalibration,
    calibration_error,
    chain_families,
    fit_calibration,
    read_calibration,
)
from paradraft.scheduling.survival import Families, survival
from support.drafting import verdict_of

WIDTH = 4


def rounds(count: int, heats: tuple[float, ...], seed: int = 0) -> Families:
    """Chains whose reported logits are their true ones times a heat per position: above 1 is over-confident."""
    rng = np.random.default_rng(seed)
    true = rng.normal(0.5, 1.2, (count, WIDTH))
    stood = rng.uniform(size=(count, WIDTH)) < 1 / (1 + np.exp(-true))
    accepted = np.cumprod(stood, axis=1).sum(axis=1)
    return chain_families(true * np.array(heats), [WIDTH] * count, accepted.tolist())


def test_error_is_the_gap_between_prediction_and_outcome() -> None:
    predicted = np.array([0.9] * 10)
    stood = np.array([True] * 5 + [False] * 5)
    assert calibration_error(predicted, stood) == pytest.approx(0.4)
    assert calibration_error(np.array([]), np.array([], dtype=bool)) == 0.0


def test_over_and_under_confident_positions_are_found_one_by_one() -> None:
    fitted = fit_calibration(rounds(4000, (3.0, 0.5, 1.0, 2.0)))
    assert fitted.temperatures == pytest.approx((3.0, 0.5, 1.0, 2.0), rel=0.35)


def test_survival_after_calibration_is_what_stands_per_position() -> None:
    """Raw confidence is over-confident; on rounds that were not fitted, predicted and observed survival agree after."""
    fitted = fit_calibration(rounds(3000, (3.0, 3.0, 3.0, 3.0)))
    fresh = rounds(3000, (3.0, 3.0, 3.0, 3.0), seed=1)
    before, after = survival(fresh, ()), survival(fresh, fitted.temperatures)
    for depth in range(1, WIDTH + 1):
        level = fresh.depths == depth
        assert calibration_error(after[level], fresh.stood[level]) < 0.035
    assert calibration_error(before, fresh.stood) > 3 * calibration_error(after, fresh.stood)
    assert fitted.ece_after < fitted.ece_before


def test_few_nodes_of_a_depth_take_the_temperature_above() -> None:
    count = 300
    logits = np.full((count, 2), 1.0)
    nodes = chain_families(logits, [1] * (count - 5) + [2] * 5, [0] * count)
    assert fit_calibration(nodes).temperatures[1] == fit_calibration(nodes).temperatures[0]


def test_positions_that_were_not_verified_count_as_nothing() -> None:
    nodes = chain_families(np.zeros((3, 3)), [3, 1, 0], [2, 1, 0])
    assert len(nodes) == 4
    assert nodes.stood.tolist() == [True, True, False, True]
    assert nodes.parents.tolist() == [-1, 0, 1, -1]


def step(heat: float, seed: int) -> tuple[Proposal, Verdict]:
    """Eight rows of chains whose confidences are off by a heat, and what stood of them."""
    rng = np.random.default_rng(seed)
    true = rng.normal(0.5, 1.2, (8, WIDTH))
    accepted = np.cumprod(rng.uniform(size=true.shape) < 1 / (1 + np.exp(-true)), axis=1).sum(axis=1).tolist()
    confidence = np.cumprod(1 / (1 + np.exp(-heat * true)), axis=1).astype(np.float32)
    proposal = replace(Proposal.chains([ints(range(WIDTH))] * 8), confidence=confidence.reshape(-1))
    return proposal, verdict_of(*((list(range(count)), [0] * (count + 1)) for count in accepted))


def test_calibration_follows_while_serving_and_forgets_old_rounds() -> None:
    online = OnlineCalibration()
    for seed in range(500):
        online.add(*step(3.0, seed))
    assert online.temperatures[0] == pytest.approx(3.0, rel=0.4)
    for seed in range(700):
        online.add(*step(0.5, seed))
    assert online.temperatures[0] == pytest.approx(0.5, rel=0.4)
    assert len(online.remembered()) <= 2048 + 8 * WIDTH


def test_a_calibration_is_written_and_read(tmp_path: Path) -> None:
    fitted = fit_calibration(rounds(500, (2.0,) * WIDTH), dataset="some rounds")
    fitted.save(tmp_path / "sts.json")
    assert read_calibration(tmp_path / "sts.json").temperatures == fitted.temperatures
    assert {"temperatures", "dataset", "num_samples", "ece_before", "ece_after"} <= json.loads(
        (tmp_path / "sts.json").read_text()
    ).keys()


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"temperatures": [0.0]}', '{"temperatures": [NaN]}', '{"temperatures": ["x"]}']
)
def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "sts.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"sts\.json"):
        read_calibration(path)


def test_a_calibration_deeper_than_any_draft_is_refused(tmp_path: Path) -> None:
    Calibration(temperatures=(1.0,) * 65).save(tmp_path / "sts.json")
    with pytest.raises(ConfigError, match="more than 64"):
        read_calibration(tmp_path / "sts.json")
