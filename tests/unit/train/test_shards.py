"""Shards: what is written comes back, whole or not at all, and damage has a name."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from paradraft.core.arrays import ints
from paradraft.core.errors import AlignmentError, ModelError
from paradraft.train import files
from paradraft.train.manifest import FILE, Manifest, read_manifest
from paradraft.train.shard_files import saturate
from paradraft.train.shards import Captured, ShardReader, ShardWriter

MANIFEST = Manifest(
    target={"name": "tiny", "sha256": None, "num_layers": 3},
    tap_layers=(0, 2),
    hidden_size=4,
    vocab_size=50,
    sources=("self", "gsm8k"),
    plan="p",
)


def captured(
    length: int, seed: int = 0, *, prompt_len: int = 2, source: str = "self", with_taps: bool = True
) -> Captured:
    random = np.random.default_rng(seed)
    taps = random.normal(size=(length, 8)).astype(np.float16)
    taps[-1] = 0
    ids = ints(random.integers(0, 50, length))
    return Captured(ids=ids, prompt_len=prompt_len, taps=taps if with_taps else None, source=source)


def assert_same(one: Captured, other: Captured) -> None:
    assert (one.prompt_len, one.source) == (other.prompt_len, other.source)
    np.testing.assert_array_equal(one.ids, other.ids)
    assert (one.taps is None) == (other.taps is None)
    if one.taps is not None and other.taps is not None:
        np.testing.assert_array_equal(one.taps, other.taps)


def test_sequences_come_back_as_they_were_written(tmp_path: Path) -> None:
    first, second = [captured(5), captured(3, 1, source="gsm8k")], [captured(9, 2, prompt_len=8)]
    writer = ShardWriter(tmp_path, MANIFEST)
    writer.write(7, second)
    writer.write(2, first)
    reader = ShardReader(tmp_path)
    assert len(reader) == 3
    assert reader.lengths.tolist() == [5, 3, 9]
    for want, got in zip([*first, *second], reader.sequences(), strict=True):
        assert_same(want, got)
    assert_same(reader.read(1), first[1])
    assert reader.read(2, with_taps=False).taps is None
    assert writer.finished() == {2, 7}


def test_files_are_plain_safetensors_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    sequences = [captured(5), captured(3, 1)]
    for folder in ("a", "b"):
        ShardWriter(tmp_path / folder, MANIFEST).write(0, sequences)
    for name in (FILE, "shard_0000.safetensors", "taps_0000.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    tokens = load_file(tmp_path / "a" / "shard_0000.safetensors")
    assert tokens["starts"].tolist() == [0, 5, 8]
    assert load_file(tmp_path / "a" / "taps_0000.safetensors")["taps"].shape == (8, 8)


def test_taps_beyond_the_limit_are_left_out_and_tokens_kept(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, MANIFEST, max_taps_bytes=100)
    for number in range(3):
        writer.write(number, [captured(5, number)])
    reader = ShardReader(tmp_path)
    assert [reader.has_taps(index) for index in range(3)] == [True, False, False]
    assert reader.read(1).taps is None
    assert reader.manifest.taps_bytes == 80
    writer.write(0, [captured(6)])  # in place of itself, so its own room is free
    assert ShardReader(tmp_path).has_taps(0)


def test_taps_can_be_dropped_and_tokens_stay(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, MANIFEST)
    writer.write(0, [captured(5)])
    writer.drop_taps(0)
    assert not (tmp_path / "taps_0000.safetensors").exists()
    assert ShardReader(tmp_path).read(0).ids.tolist() == captured(5).ids.tolist()
    assert writer.finished() == {0}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_nan_shard_is_refused_when_written_and_nothing_is_lost(tmp_path: Path, bad: float) -> None:
    writer = ShardWriter(tmp_path, MANIFEST)
    writer.write(0, [captured(4)])
    broken = captured(4, 1)
    assert broken.taps is not None
    broken.taps[1, 3] = bad
    with pytest.raises(ModelError, match="1 taps are NaN or infinite, the first at token 1"):
        writer.write(1, [broken])
    assert [path.name for path in tmp_path.glob("*0001*")] == []
    assert len(ShardReader(tmp_path)) == 1


def test_a_nan_shard_from_elsewhere_is_refused_when_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = captured(4)
    assert broken.taps is not None
    broken.taps[0, 0] = np.nan
    with monkeypatch.context() as patch:
        patch.setattr("paradraft.train.shard_files.check_finite", lambda taps, where: None)
        ShardWriter(tmp_path, MANIFEST).write(0, [broken])
    with pytest.raises(ModelError, match="NaN"):
        ShardReader(tmp_path).read(0)


def test_a_truncated_shard_is_refused_and_made_anew(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, MANIFEST)
    writer.write(0, [captured(4)])
    path = tmp_path / "taps_0000.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ModelError, match=r"taps_0000\.safetensors is damaged.*same capture again"):
        ShardReader(tmp_path).read(0)
    assert writer.finished() == frozenset()
    path = tmp_path / "shard_0000.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ModelError, match=r"shard_0000\.safetensors is damaged"):
        ShardReader(tmp_path)
    writer.write(0, [captured(4)])
    assert_same(ShardReader(tmp_path).read(0), captured(4))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, MANIFEST)
    writer.write(0, [captured(4)])
    (tmp_path / "shard_0000.safetensors").unlink()
    with pytest.raises(ModelError, match=r"shard_0000\.safetensors is damaged: No such file"):
        ShardReader(tmp_path)
    assert writer.finished() == frozenset()


def test_a_full_disk_is_said_plainly_and_the_folder_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = ShardWriter(tmp_path, MANIFEST)
    writer.write(0, [captured(4)])

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        with pytest.raises(ModelError, match=r"disk is full.*what is finished is kept"):
            writer.write(1, [captured(4, 1)])
    assert not list(tmp_path.glob(".*partial*"))
    assert len(ShardReader(tmp_path)) == 1
    writer.write(1, [captured(4, 1)])
    assert len(ShardReader(tmp_path)) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": ints([1, 50, 2, 3])}, "ids reach from 1 to 50 in a vocabulary of 50"),
        ({"prompt_len": 4}, "a prompt is empty, or nothing follows it"),
        ({"prompt_len": 0}, "a prompt is empty, or"),
        ({"source": "elsewhere"}, "a source is none of self, gsm8k"),
        ({"taps": np.zeros((3, 8), np.float16)}, "do not fit 4 tokens"),
        ({"taps": np.zeros((4, 8), np.float32)}, "float32"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        ShardWriter(tmp_path, MANIFEST).write(0, [replace(captured(4), **change)])
    assert not read_manifest(tmp_path).shards


@pytest.mark.parametrize(
    "change",
    [{"target": {"name": "other"}}, {"tap_layers": (0, 1)}, {"hidden_size": 8}, {"sources": ("self",)}, {"plan": "q"}],
)
def test_another_run_cannot_go_on_with_a_folder(tmp_path: Path, change: dict[str, object]) -> None:
    ShardWriter(tmp_path, MANIFEST).write(0, [captured(4)])
    with pytest.raises(AlignmentError, match=f"was captured with {next(iter(change))}="):
        ShardWriter(tmp_path, replace(MANIFEST, **change))
    ShardWriter(tmp_path, MANIFEST)
    assert len(ShardReader(tmp_path)) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", 0),
        ("hidden_size", 1.5),
        ("tap_layers", "0"),
        ("vocab_size", True),
        ("shards", [{}]),
        ("format", 9),
    ],
)
def test_a_manifest_with_a_bad_value_is_refused(tmp_path: Path, key: str, value: object) -> None:
    ShardWriter(tmp_path, MANIFEST)
    path = tmp_path / FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(ModelError, match=FILE):
        read_manifest(tmp_path)


def test_a_folder_without_a_manifest_is_no_folder_of_shards(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be read.*paradraft train capture"):
        ShardReader(tmp_path)


def test_taps_too_large_for_half_precision_are_saturated_and_counted(tmp_path: Path) -> None:
    values = np.array([[1e6, -1e6, 1.0, np.nan]], np.float32)
    half = saturate(values)
    assert half[0, :3].tolist() == [65504.0, -65504.0, 1.0]
    assert np.isnan(half[0, 3])
    large = captured(4)
    assert large.taps is not None
    large.taps[0, :2] = [65504, -65504]
    assert ShardWriter(tmp_path, MANIFEST).write(0, [large]).num_saturated == 2


def test_half_written_files_of_killed_runs_are_swept_and_those_of_running_ones_stay(tmp_path: Path) -> None:
    dead, alive = tmp_path / ".taps_0001.safetensors.partial-99", tmp_path / ".taps_0002.safetensors.partial-98"
    for path in (dead, alive):
        path.write_bytes(b"x")
    os.utime(dead, (0, 0))
    ShardWriter(tmp_path, MANIFEST)
    assert not dead.exists()
    assert alive.exists()
