"""The plan of a capture: what decides its content, and what it takes of the disk."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from paradraft.core.errors import AlignmentError, ConfigError, ModelError
from paradraft.train import plan as planning
from paradraft.train.plan import CaptureOptions, CapturePlan, check_taps, default_taps, room_needed
from paradraft.train.prompts import Task

PLAN = CapturePlan(
    target={"name": "tiny"},
    tap_layers=(0, 2),
    hidden_size=8,
    vocab_size=50,
    tasks=(Task(messages=(("user", "Who?"),), source="file"),),
    held_out=("When?",),
    options=CaptureOptions(own_turns=9, max_prompt_len=10, max_tokens=20),
)
Usage = namedtuple("Usage", "total used free")


def test_the_default_taps_of_thirty_layers_are_those_of_the_plan() -> None:
    assert default_taps(30) == (1, 8, 14, 20, 27, 29)


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 6, 80])
def test_default_taps_exist_in_every_target(layers: int) -> None:
    taps = check_taps(default_taps(layers), layers)
    assert taps == default_taps(layers)
    assert taps[-1] == layers - 1


@pytest.mark.parametrize("layers", [(0, 30), (-2,), (3, 3), ()])
def test_taps_out_of_range_are_refused_by_name(layers: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"from -1 .the embedding. to 29"):
        check_taps(layers, 30)


def test_whatever_changes_the_content_changes_the_plan() -> None:
    plans = {
        PLAN.described(),
        replace(PLAN, tasks=()).described(),
        replace(PLAN, held_out=()).described(),
        replace(PLAN, options=replace(PLAN.options, seed=1)).described(),
        replace(PLAN, options=replace(PLAN.options, temperature=0.7)).described(),
        replace(PLAN, options=replace(PLAN.options, unit=7)).described(),
    }
    assert len(plans) == 6
    assert replace(PLAN).described() == PLAN.described()
    assert PLAN.manifest().sources == ("file", "self")


def test_disk_use_is_known_before_the_start(tmp_path: Path) -> None:
    most = 10 * 30
    assert room_needed(PLAN, tmp_path, None) == most * (2 * 8 * 2 + 4)
    assert room_needed(PLAN, tmp_path / "not" / "there", 100) == 100 + most * 4
    assert not (tmp_path / "not").exists()


def test_a_disk_that_is_too_small_is_refused_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning.shutil, "disk_usage", lambda _: Usage(10**10, 0, 10**9))
    big = replace(PLAN, options=replace(PLAN.options, own_turns=1_000_000))
    with pytest.raises(ModelError, match=r"0\.7 GB free.*--taps-gb"):
        room_needed(big, tmp_path, None)
    room_needed(big, tmp_path, 10**8)


@pytest.mark.parametrize(("name", "value"), [("unit", 0), ("max_tokens", 0), ("seed", -1), ("own_turns", -1)])
def test_an_option_out_of_range_is_refused(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"{name}={value}"):
        CaptureOptions(**{name: value})


def test_a_capture_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing to ask"):
        replace(PLAN, tasks=(), options=CaptureOptions())


def test_a_changed_option_is_named_when_a_folder_is_gone_on_with(tmp_path: Path) -> None:
    longer = replace(PLAN, options=replace(PLAN.options, max_tokens=21))
    with pytest.raises(AlignmentError, match="was captured with max_tokens=20, and this run has max_tokens=21"):
        PLAN.manifest().require_same(longer.manifest(), tmp_path)
