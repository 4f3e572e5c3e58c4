from __future__ import annotations

import numpy as np
import pytest
import torch

from paradraft.core.errors import ModelError
from paradraft.models.stored import EVERY, StoredTensor, narrow
from paradraft.models.tensors import TensorMap, stored_of, tensor_of
from paradraft.models.weight_map import WeightMap


def test_a_tensor_is_read_when_it_is_asked_for_and_not_before() -> None:
    reads: list[str] = []

    def reader() -> StoredTensor:
        reads.append("a")
        return StoredTensor(values=np.ones(2, dtype=np.float32))

    weights = WeightMap({"a": reader}, origin="x")
    assert ("a" in weights, "b" in weights, len(weights), list(weights), reads) == (True, False, 1, ["a"], [])
    assert weights["a"].values.tolist() == [1.0, 1.0]
    assert reads == ["a"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_values_that_are_not_finite_are_refused(value: float, dtype: torch.dtype) -> None:
    tensor = torch.zeros(4, 4, dtype=dtype)
    tensor[1, 1] = value
    weights = WeightMap({"a": lambda: stored_of(tensor)}, origin="file")
    with pytest.raises(ModelError, match=rf"file: the weight a holds {value} at element 5"):
        weights["a"]


def test_a_value_behind_the_part_looked_at_first_is_found_too() -> None:
    values = np.zeros(2_500_000, dtype=np.float16)
    values[2_400_000] = np.inf
    assert StoredTensor(values=values).find_not_finite() == (2_400_000, float("inf"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_large_finite_values_are_no_error(dtype: torch.dtype) -> None:
    stored = stored_of(torch.full((1000,), torch.finfo(dtype).max, dtype=dtype))
    assert WeightMap({"a": lambda: stored}, origin="file")["a"] is stored


def test_rows_are_read_and_checked_alone() -> None:
    tensor = torch.zeros(6, 4, dtype=torch.bfloat16)
    tensor[3, 1] = float("inf")
    table = WeightMap({"a": lambda: stored_of(tensor)}, origin="file").table("a")
    assert table.shape == (6, 4)
    assert table.rows(np.array([5, 2])).shape == (2, 4)
    with pytest.raises(
        ModelError, match=r"file: the weight a, of the rows that were asked for, holds inf at element 5"
    ):
        table.rows(np.array([2, 3]))
    with pytest.raises(ModelError, match="holds inf at element 13"):
        table.rows(EVERY)


@pytest.mark.parametrize("source", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16, torch.float16])
def test_formats_are_changed_as_torch_changes_them(source: torch.dtype, wanted: torch.dtype) -> None:
    drawn = torch.randn(4000, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    values = torch.cat([drawn * 10.0 ** torch.arange(-8, 8).repeat(250), torch.tensor([1e30, -0.0])]).to(source)
    found = stored_of(values).in_format(str(wanted).removeprefix("torch."))
    assert found.number_format == str(wanted).removeprefix("torch.")
    assert torch.equal(tensor_of(found), values.to(wanted))


def test_whole_numbers_are_not_checked() -> None:
    stored = stored_of(torch.arange(3))
    assert WeightMap({"a": lambda: stored}, origin="file")["a"] is stored


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.bool]
)
def test_tensors_come_back_in_their_own_type_and_shape(dtype: torch.dtype) -> None:
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    weights = TensorMap(WeightMap({"a": lambda: stored_of(tensor)}, origin="file"))
    assert ("a" in weights, list(weights), len(weights), weights["a"].dtype) == (True, ["a"], 1, dtype)
    assert torch.equal(weights["a"], tensor)


def test_sixteen_bits_widen_exactly() -> None:
    tensor = torch.randn(1000, generator=torch.Generator().manual_seed(1)).bfloat16()
    np.testing.assert_array_equal(stored_of(tensor).floats(), tensor.float().numpy())
    half = tensor.to(torch.float16)
    np.testing.assert_array_equal(stored_of(half).floats(), half.float().numpy())


def test_values_are_rounded_to_sixteen_bits_as_torch_rounds_them() -> None:
    values = torch.cat(
        [torch.randn(5000, generator=torch.Generator().manual_seed(2)), torch.tensor([0.0, -0.0, 3.4e38])]
    )
    ties = torch.tensor([0x3F808000, 0x3F818000, 0x3F808001], dtype=torch.int32).view(torch.float32)
    both = torch.cat([values, ties])
    np.testing.assert_array_equal(narrow(both.numpy()), stored_of(both.bfloat16()).values)
