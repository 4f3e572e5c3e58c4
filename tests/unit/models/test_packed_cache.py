"""Packed weights are saved once and mapped afterwards, bit for bit those that packing in memory gives."""

from __future__ import annotations

import errno
import multiprocessing
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ModelError
from paradraft.hub.packed import packed_entries
from paradraft.models import packed_cache
from paradraft.models.checkpoint import Checkpoint, Source
from paradraft.models.decoder_config import read_decoder_config
from paradraft.models.decoder_names import expected_shapes
from paradraft.models.packed_cache import PackedDecoder, load_packed
from paradraft.models.stored import StoredTensor
from paradraft.models.weight_map import WeightMap
from paradraft.native.executor import Executor
from paradraft.native.packed_file import PAGE
from paradraft.native.records import PassInput
from paradraft.native.weights import ModelWeights
from support.native import needs_native

pytestmark = needs_native
QWEN3 = {"model_type": "qwen3", "tie_word_embeddings": False}
QWEN2 = {"model_type": "qwen2", "tie_word_embeddings": True}
SIZES = {
    "vocab_size": 40,
    "hidden_size": 24,
    "intermediate_size": 50,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "max_position_embeddings": 64,
}


@dataclass
class Model:
    """A model whose tensors are counted as they are read."""

    folder: Path
    config: dict[str, object]
    reads: list[str] = field(default_factory=list)

    def load(self, dtype: str = "bf16") -> PackedDecoder:
        decoder = read_decoder_config(self.config)
        shapes = expected_shapes(decoder) | {"lm_head.weight": (40, 24)}
        readers = {name: partial(self._tensor, name, shape) for name, shape in shapes.items()}
        file = self.folder / "weights"
        file.write_bytes(b"weights") if not file.exists() else None
        checkpoint = Checkpoint(
            source=Source(name="tiny", path=self.folder, revision=None),
            config=self.config,
            generation_config={},
            stored=WeightMap(readers, origin="test"),
            files=(file,),
        )
        return load_packed(checkpoint, decoder, dtype=dtype)

    def _tensor(self, name: str, shape: tuple[int, ...]) -> StoredTensor:
        self.reads.append(name)
        values = np.random.default_rng(len(name)).standard_normal(shape).astype(np.float32)
        return StoredTensor(values=values)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PARADRAFT_PACKED_GB", "1")
    return tmp_path / "cache" / "packed"


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return Model(tmp_path, {**SIZES, **QWEN3})


def only_file() -> Path:
    [entry] = packed_entries()
    return entry.path


def logits_of(weights: ModelWeights) -> np.ndarray:
    executor = Executor(weights, num_slots=16, num_threads=1)
    starts, three = ints([0, 3]), ints([0, 1, 2])
    given = PassInput(
        row_starts=starts,
        tokens=ints([5, 7, 11]),
        positions=three,
        slots=three,
        parents=ints([-1, 0, 1]),
        context_starts=ints([0, 0]),
        context_slots=ints([]),
        scored=three,
    )
    logits = executor.run(given).logits.copy()
    executor.close()
    return logits


def assert_same(one: ModelWeights, other: ModelWeights) -> None:
    assert np.array_equal(logits_of(one), logits_of(other))
    assert np.array_equal(one.head.data, other.head.data)
    assert (one.embedding is None) == (other.embedding is None)
    assert one.embedding is None or np.array_equal(one.embedding, other.embedding)
    for ours, theirs in zip(one.layers, other.layers, strict=True):
        assert np.array_equal(ours.query_key_value.data, theirs.query_key_value.data)
        assert np.array_equal(ours.down.data, theirs.down.data)
        assert np.array_equal(ours.inner_norm, theirs.inner_norm)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8", "int4"])
@pytest.mark.parametrize("family", [QWEN2, QWEN3])
def test_a_second_start_reads_no_tensor_and_gives_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, family: dict[str, object]
):
    model = Model(tmp_path, {**SIZES, **family})
    first = model.load(dtype)
    assert "Packed weights saved, " in first.notes[0]
    assert model.reads
    model.reads.clear()
    second = model.load(dtype)
    assert not model.reads
    assert not second.notes
    monkeypatch.setenv("PARADRAFT_PACKED_GB", "0")
    third = model.load(dtype)
    assert model.reads
    assert_same(second.weights, first.weights)
    assert_same(second.weights, third.weights)


def test_the_head_of_an_int4_model_stays_in_int8(model: Model):
    weights = model.load("int4").weights
    assert (weights.head.kind, weights.layers[0].up.kind) == ("int8", "int4")


def test_matrices_lie_at_pages_and_cannot_be_written_to(model: Model):
    weights = model.load().weights
    for matrix in (weights.head, weights.layers[1].gate):
        assert matrix.data.ctypes.data % PAGE == 0
        assert not matrix.data.flags.writeable


def test_nothing_is_saved_where_that_is_turned_off(model: Model, cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PARADRAFT_PACKED_GB", "0")
    assert not model.load().notes
    assert not cache.exists()


def test_number_formats_lie_side_by_side(model: Model):
    model.load("bf16")
    model.load("int8")
    assert len(packed_entries()) == 2


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda content: content[:-PAGE], "cut short"),
        (lambda content: content[:40], "not a file of packed weights"),
        (lambda _: b"", "not a file of packed weights"),
        (lambda content: flipped(content, 30), "damaged"),
        (lambda content: flipped(content, 300), "damaged"),
        (lambda content: flipped(content, 60), "damaged: its weights"),
        (lambda content: flipped(content, len(content) // 2), "damaged: its weights"),
    ],
)
def test_a_damaged_file_is_named_and_made_anew(model: Model, change: Callable[[bytes], bytes], named: str):
    sound = model.load().weights
    file = only_file()
    before = file.read_bytes()
    os.truncate(file, 0)  # mapped pages are not written to in place
    file.unlink()
    file.write_bytes(change(before))
    again = model.load()
    assert named in again.notes[0]
    assert str(file) in again.notes[0]
    assert "made anew" in again.notes[0]
    assert file.read_bytes() == before
    assert not model.load().notes
    del sound


@pytest.mark.parametrize(("name", "value"), [("_PACKING", 99), ("VERSION", 98), ("__version__", "9.9")])
def test_a_file_of_another_version_is_made_anew(
    model: Model, monkeypatch: pytest.MonkeyPatch, name: str, value: int | str
):
    model.load()
    monkeypatch.setattr(packed_cache, name, value)
    [note] = model.load().notes
    assert f"not {value!r}" in note
    assert not model.load().notes


def test_a_file_of_another_layout_is_made_anew(tmp_path: Path, model: Model):
    model.load()
    tied = Model(tmp_path, {**model.config, "tie_word_embeddings": True})
    assert "lays the weights out otherwise" in tied.load().notes[0]


def test_other_weights_have_a_file_of_their_own(tmp_path: Path, model: Model):
    model.load()
    (tmp_path / "weights").write_bytes(b"others!")
    assert "saved" in model.load().notes[0]
    assert len(packed_entries()) == 2


def test_a_cache_that_cannot_be_written_costs_the_saving_only(model: Model, cache: Path):
    cache.parent.mkdir()
    cache.write_text("a file in the way")
    packed = model.load()
    assert packed.notes[0].startswith("Packed weights stay in memory: ")
    assert str(cache) in packed.notes[0]
    assert np.isfinite(logits_of(packed.weights)).all()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_costs_the_saving_only(model: Model, cache: Path):
    cache.mkdir(parents=True)
    cache.chmod(0o555)
    assert model.load().notes[0].startswith("Packed weights stay in memory: ")


def test_a_full_disk_costs_the_saving_only(model: Model, cache: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    assert "the disk is full" in model.load().notes[0]
    assert [path.name for path in cache.iterdir()] == [".lock"]


def test_weights_over_the_limit_stay_in_memory(model: Model, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PARADRAFT_PACKED_GB", "0.00001")
    assert "PARADRAFT_PACKED_GB allows" in model.load().notes[0]


def test_weights_that_cannot_be_packed_are_an_error_and_leave_nothing(
    model: Model, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    def huge(_: Model, name: str, shape: tuple[int, ...]) -> StoredTensor:
        return StoredTensor(values=np.full(shape, np.finfo(np.float32).max))

    monkeypatch.setattr(Model, "_tensor", huge)
    with pytest.raises(ModelError, match="in bf16"):
        model.load()
    assert [path.name for path in cache.iterdir()] == [".lock"]


def test_what_a_killed_process_left_is_swept(model: Model, cache: Path):
    model.load()
    left = cache / f".{only_file().name}.partial-1"
    left.write_bytes(b"half")
    only_file().unlink()
    model.load()
    assert not left.exists()


def start(model: Model, barrier: Barrier, folder: Path, number: int) -> None:
    barrier.wait()
    packed = model.load()
    (folder / f"notes-{number}").write_text(" ".join(packed.notes))
    np.save(folder / f"logits-{number}.npy", logits_of(packed.weights))


def processes(model: Model, folder: Path, count: int) -> Iterator[multiprocessing.Process]:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count)
    for number in range(count):
        yield context.Process(target=start, args=(model, barrier, folder, number))


def test_of_two_processes_at_once_one_packs_and_both_have_the_weights(model: Model, tmp_path: Path):
    started = list(processes(replace(model), tmp_path, 2))
    for process in started:
        process.start()
    for process in started:
        process.join(120)
        assert process.exitcode == 0
    notes = [(tmp_path / f"notes-{number}").read_text() for number in range(2)]
    assert sorted(bool(note) for note in notes) == [False, True]
    logits = [np.load(tmp_path / f"logits-{number}.npy") for number in range(2)]
    assert np.array_equal(*logits)
    assert not list((tmp_path / "cache" / "packed").glob("*partial*"))
