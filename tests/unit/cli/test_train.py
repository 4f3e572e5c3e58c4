"""`paradraft train` on small targets and folders."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from paradraft.cli.main import app
from paradraft.models.tiny import write_tiny_model
from paradraft.train.shards import ShardReader
from support.native import needs_native


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"), "llama", 2)


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("q") / "questions.txt"
    path.write_text("\n".join(f"How much is {number} and {number}?" for number in range(5)))
    return path


def train(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


def captured(folder: Path, target: Path, questions: Path, *more: object) -> Result:
    return train(
        "capture", folder, "--model", target, "--prompts", f"sums={questions}", "--held-out", "none", "--max-prompt",
        80, "--max-tokens", 6, "--unit", 2, "--rows", 2, "--dtype", "fp32", *more,
    )  # fmt: skip


def test_capture_then_table(tmp_path: Path, target: Path, questions: Path) -> None:
    folder = tmp_path / "shards"
    done = captured(folder, target, questions, "--own-turns", 2)
    assert done.exit_code == 0, done.output
    assert "at most" in done.stderr
    assert "GB of disk" in done.stderr
    assert "5 conversations" in done.stdout
    assert re.search(r"this run: \d+ answer tokens in \d+ s \(\d+\.\d tokens/s\)", done.stdout)
    reader = ShardReader(folder)
    assert len(reader) == 5
    assert reader.manifest.tap_layers == (0, 1, 2)
    assert all(each.taps is not None for each in reader.sequences())
    again = captured(folder, target, questions, "--own-turns", 2, "--json")
    assert json.loads(again.stdout)["num_answered"] == 0
    table = train("table", folder, tmp_path / "answers.table")
    assert table.exit_code == 0, table.output
    assert (tmp_path / "answers.table").exists()


def test_taps_can_be_made_again_from_tokens(tmp_path: Path, target: Path, questions: Path) -> None:
    with_taps, without = tmp_path / "with", tmp_path / "without"
    assert captured(with_taps, target, questions, "--taps", "2,0").exit_code == 0
    assert captured(without, target, questions, "--taps", "0,2", "--taps-gb", 0).exit_code == 0
    assert not ShardReader(without).has_taps(0)
    done = train("taps", without, "--model", target, "--dtype", "fp32")
    assert "3 shards got their taps back" in done.stdout, done.output
    for one, other in zip(ShardReader(with_taps).sequences(), ShardReader(without).sequences(), strict=True):
        assert one.taps is not None
        assert other.taps is not None
        assert one.ids.tolist() == other.ids.tolist()
        assert abs(one.taps.astype(float) - other.taps.astype(float)).max() < 5e-3


def test_taps_of_another_target_are_not_mixed_in(tmp_path: Path, target: Path, questions: Path) -> None:
    assert captured(tmp_path / "s", target, questions, "--taps-gb", 0).exit_code == 0
    other = write_tiny_model(tmp_path / "other", "llama", 9)
    done = train("taps", tmp_path / "s", "--model", other)
    assert done.exit_code == 2
    assert "the very model" in done.stderr


@needs_native
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_capture_takes_answers_and_taps_from_the_native_core(
    tmp_path: Path, target: Path, questions: Path, dtype: str
) -> None:
    done = captured(tmp_path / "s", target, questions, "--dtype", dtype)
    assert re.search(rf"come from the native core \(.*\), {dtype}\.", " ".join(done.stderr.split())), done.output
    assert ShardReader(tmp_path / "s").has_taps(0)


def test_a_capture_says_why_it_is_not_native(tmp_path: Path, target: Path, questions: Path) -> None:
    done = captured(tmp_path / "s", target, questions, "--set", "runner=torch")
    said = " ".join(done.stderr.split())
    assert "the native core" not in said
    assert "fp32 (not native: " in said, done.output


def test_turns_are_asked_for_in_shares(tmp_path: Path, target: Path, questions: Path) -> None:
    shares = ("--openings", 0.5, "--half-written", 0.25, "--follow-ups", 0.75)
    assert captured(tmp_path / "s", target, questions, *shares).exit_code == 0
    plan = json.loads(ShardReader(tmp_path / "s").manifest.plan)
    assert [plan[name] for name in ("openings", "half_written", "follow_ups")] == [0.5, 0.25, 0.75]
    other = captured(tmp_path / "s", target, questions)
    assert other.exit_code == 2
    assert "openings=0.5" in other.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--taps", "0,3"), "from -1 (the embedding) to 2"),
        (("--taps", "all"), "is not a list of layers"),
        (("--part", "2/2"), "Count parts from 0"),
        (("--part", "one"), "Write it like 0/2"),
        (("--max-tokens", 0), "max_tokens=0"),
        (("--held-out", "nowhere.jsonl"), "cannot be read"),
        (("--follow-ups", 1.5), "--follow-ups"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    tmp_path: Path, target: Path, questions: Path, more: tuple[object, ...], message: str
) -> None:
    done = captured(tmp_path / "s", target, questions, *more)
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (tmp_path / "s").exists()
