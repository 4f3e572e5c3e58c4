from __future__ import annotations

import pytest
import torch

from paradraft.core.errors import ModelError
from paradraft.models.weight_map import WeightMap


def test_a_tensor_is_read_when_it_is_asked_for_and_not_before() -> None:
    reads: list[str] = []

    def reader() -> torch.Tensor:
        reads.append("a")
        return torch.ones(2)

    weights = WeightMap({"a": reader}, origin="x")
    assert ("a" in weights, "b" in weights, len(weights), list(weights), reads) == (True, False, 1, ["a"], [])
    assert torch.equal(weights["a"], torch.ones(2))
    assert reads == ["a"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_values_that_are_not_finite_are_refused(value: float, dtype: torch.dtype) -> None:
    tensor = torch.zeros(4, 4, dtype=dtype)
    tensor[1, 1] = value
    weights = WeightMap({"a": lambda: tensor}, origin="file")
    with pytest.raises(ModelError, match=rf"file: the weight a holds {value} at element 5"):
        weights["a"]


def test_large_finite_values_are_no_error() -> None:
    tensor = torch.full((1000,), torch.finfo(torch.float32).max)
    assert WeightMap({"a": lambda: tensor}, origin="file")["a"] is tensor


def test_whole_numbers_are_not_checked() -> None:
    tensor = torch.arange(3)
    assert WeightMap({"a": lambda: tensor}, origin="file")["a"] is tensor
