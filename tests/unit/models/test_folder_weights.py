from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from paradraft.core.errors import ModelError
from paradraft.models.folder.files import find_weights
from paradraft.models.folder.weights import read_folder
from paradraft.models.tensors import TensorMap

A = {"a.weight": torch.arange(6.0).reshape(2, 3), "shared.bias": torch.ones(3)}
B = {"b.weight": torch.full((4,), 2.0).bfloat16()}
Save = Callable[[dict[str, torch.Tensor], Path], None]
FORMS: dict[str, tuple[str, Save]] = {
    "safetensors": ("model", save_file),
    "bin": ("pytorch_model", torch.save),
}


@pytest.fixture(params=sorted(FORMS))
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def read(folder: Path) -> TensorMap:
    return TensorMap(read_folder(find_weights(folder)))


def write(folder: Path, form: str, tensors: dict[str, torch.Tensor], part: str = "") -> Path:
    stem, save = FORMS[form]
    path = folder / f"{stem}{part}.{form}"
    save(tensors, path)
    return path


def write_shards(folder: Path, form: str) -> tuple[Path, Path]:
    first, second = write(folder, form, A, "-00001-of-00002"), write(folder, form, B, "-00002-of-00002")
    owner = dict.fromkeys(A, first.name) | dict.fromkeys(B, second.name)
    write_index(folder, form, owner)
    return first, second


def write_index(folder: Path, form: str, owner: object) -> None:
    (folder / f"{FORMS[form][0]}.{form}.index.json").write_text(json.dumps({"weight_map": owner}))


def test_a_single_file_gives_its_tensors(form: str, tmp_path: Path) -> None:
    write(tmp_path, form, A)
    weights = read(tmp_path)
    assert set(weights) == set(A)
    assert all(torch.equal(weights[name], tensor) for name, tensor in A.items())


def test_shards_give_all_their_tensors(form: str, tmp_path: Path) -> None:
    write_shards(tmp_path, form)
    weights = read(tmp_path)
    assert set(weights) == {*A, *B}
    assert torch.equal(weights["b.weight"], B["b.weight"])


def test_safetensors_are_taken_where_both_are_there(tmp_path: Path) -> None:
    write(tmp_path, "safetensors", A)
    write(tmp_path, "bin", B)
    assert set(read(tmp_path)) == set(A)


def test_a_missing_shard_is_named(form: str, tmp_path: Path) -> None:
    _, second = write_shards(tmp_path, form)
    second.unlink()
    with pytest.raises(ModelError, match=rf"{second.name} is missing, .* holds b.weight"):
        read(tmp_path)


def test_a_file_cut_short_is_refused_before_any_tensor_is_read(form: str, tmp_path: Path) -> None:
    path = write(tmp_path, form, A)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ModelError, match=rf"{path.name} is not a whole (safetensors|PyTorch) file"):
        read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{}", b"not weights at all, but long enough to be read"])
def test_another_kind_of_file_is_refused(form: str, content: bytes, tmp_path: Path) -> None:
    write(tmp_path, form, A).write_bytes(content)
    with pytest.raises(ModelError, match=r"is (refused|not a whole)"):
        read(tmp_path)


def test_a_shard_without_the_tensors_promised_is_foreign(form: str, tmp_path: Path) -> None:
    _, second = write_shards(tmp_path, form)
    FORMS[form][1]({}, second)
    with pytest.raises(ModelError, match=rf"{second.name} does not hold b.weight"):
        read(tmp_path)


def test_a_shard_with_tensors_of_another_model_is_foreign(form: str, tmp_path: Path) -> None:
    _, second = write_shards(tmp_path, form)
    FORMS[form][1]({**B, "c.weight": torch.ones(1)}, second)
    with pytest.raises(ModelError, match=rf"{second.name} holds c.weight, which the index does not place there"):
        read(tmp_path)


@pytest.mark.parametrize("owner", [None, [], {}, {"a": 1}])
def test_an_index_that_maps_nothing_is_refused(form: str, owner: object, tmp_path: Path) -> None:
    write_index(tmp_path, form, owner)
    with pytest.raises(ModelError, match="weight_map does not map tensors to files"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "inner/model.safetensors", ".."])
def test_an_index_cannot_point_outside_its_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "inner").mkdir()
    for place in (tmp_path, tmp_path / "model" / "inner"):
        save_file(A, place / "model.safetensors")
    write_index(tmp_path / "model", "safetensors", {"a.weight": name})
    with pytest.raises(ModelError, match=r"outside the folder|is missing"):
        read(tmp_path / "model")


def test_a_folder_without_weights_says_what_it_looks_for(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none of model.safetensors, pytorch_model.bin"):
        read(tmp_path)


class Attack:
    """Writes a file when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return (exec, (f"open({str(self.trace)!r}, 'w').close()",))


@pytest.mark.parametrize("is_archive", [True, False], ids=["archive", "legacy"])
def test_code_in_a_pickled_file_is_refused_and_never_run(is_archive: bool, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": Attack(trace)}, path, _use_new_zipfile_serialization=is_archive)
    with pytest.raises(ModelError, match=r"is refused: it holds more than tensors") as caught:
        read(tmp_path)
    assert "weights_only" not in str(caught.value), "torch's own words advise to run the code"
    assert not trace.exists()
    path.write_bytes(pickle.dumps({"a": Attack(trace)}, protocol=2))
    with pytest.raises(ModelError, match="is refused"):
        read(tmp_path)
    assert not trace.exists()


@pytest.mark.parametrize("content", [[torch.ones(1)], {"a": {"b": torch.ones(1)}}, {"a": 1}])
def test_a_pickled_file_that_maps_no_names_to_tensors_is_refused(content: object, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="holds no mapping of names to tensors"):
        read(tmp_path)


def test_legacy_pickled_files_are_read(tmp_path: Path) -> None:
    torch.save(A, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    assert torch.equal(read(tmp_path)["a.weight"], A["a.weight"])


def test_eight_bit_floats_are_refused_by_name(tmp_path: Path) -> None:
    save_file({"a.weight": torch.ones(4).to(torch.float8_e4m3fn)}, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=r"a.weight has type F8_E4M3"):
        read(tmp_path)


def test_eight_bit_floats_in_a_pickled_file_are_refused_by_name(tmp_path: Path) -> None:
    torch.save({"a.weight": torch.ones(4).to(torch.float8_e4m3fn)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"a.weight has type torch.float8_e4m3fn"):
        read(tmp_path)


def test_tensors_that_lie_at_odd_places_of_a_file_are_read(tmp_path: Path) -> None:
    tensors = {"a": torch.tensor([7], dtype=torch.uint8), "b": torch.arange(3.0)}
    save_file(tensors, tmp_path / "model.safetensors")
    weights = read(tmp_path)
    assert all(torch.equal(weights[name], tensor) for name, tensor in tensors.items())


def test_a_tensor_without_elements_is_read(tmp_path: Path) -> None:
    save_file({"a": torch.empty(0, 3), "b": torch.tensor(2.0)}, tmp_path / "model.safetensors")
    weights = read(tmp_path)
    assert (tuple(weights["a"].shape), weights["b"].item()) == ((0, 3), 2.0)
