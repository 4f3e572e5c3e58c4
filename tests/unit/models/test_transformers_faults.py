"""Used-up memory is told apart from a model that cannot be served."""

from __future__ import annotations

import pytest
import torch

from paradraft.models.foreign.faults import raise_if_memory, told


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("DefaultCPUAllocator: can't allocate memory")],
)
def test_used_up_memory_is_raised_again(error: Exception) -> None:
    with pytest.raises(type(error)):
        raise_if_memory(error)


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), KeyError("alloc")])
def test_other_faults_are_left_to_the_caller(error: Exception) -> None:
    raise_if_memory(error)


@pytest.mark.parametrize(
    ("error", "text"), [(ValueError("first\nsecond"), "ValueError: first"), (TypeError(), "TypeError: ")]
)
def test_an_error_is_told_in_one_line(error: Exception, text: str) -> None:
    assert told(error) == text
