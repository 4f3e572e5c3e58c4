from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from paradraft.core.errors import ModelError
from paradraft.models.gguf.file import read_gguf, separate_halves
from paradraft.models.tensors import TensorMap
from support.gguf_files import TINY, gguf_tensors, interleave, tiny_weights, write_gguf


def test_interleaved_rows_are_separated_again() -> None:
    rows = np.random.default_rng(0).standard_normal((24, 5)).astype(np.float32)
    assert (separate_halves(interleave(rows, 3), 3) == rows).all()


def test_a_llama_file_gives_back_the_weights_and_names_it_was_made_from(tmp_path: Path) -> None:
    weights = tiny_weights()
    path = write_gguf(tmp_path / "a.gguf", TINY, gguf_tensors(weights, heads=(4, 2)))
    read = TensorMap(read_gguf(path)[1])
    assert set(read) == set(weights)
    assert all(torch.equal(read[name], tensor) for name, tensor in weights.items())


def test_query_biases_of_a_llama_file_are_separated_too(tmp_path: Path) -> None:
    weights = tiny_weights()
    for layer in range(2):
        for name, size in (("q", 64), ("k", 32), ("v", 32), ("o", 64)):
            weights[f"model.layers.{layer}.self_attn.{name}_proj.bias"] = torch.arange(size).float()
    path = write_gguf(tmp_path / "a.gguf", TINY, gguf_tensors(weights, heads=(4, 2)))
    read = TensorMap(read_gguf(path)[1])
    assert torch.equal(read["model.layers.0.self_attn.k_proj.bias"], torch.arange(32).float())


def test_rows_of_other_architectures_stay_where_they_are(tmp_path: Path) -> None:
    weights = tiny_weights()
    metadata = {key.replace("llama.", "qwen3."): value for key, value in TINY.items()}
    metadata["general.architecture"] = "qwen3"
    read = TensorMap(read_gguf(write_gguf(tmp_path / "a.gguf", metadata, gguf_tensors(weights)))[1])
    name = "model.layers.1.self_attn.q_proj.weight"
    assert torch.equal(read[name], weights[name])


def test_a_weight_that_is_not_a_number_is_named_with_its_place(tmp_path: Path) -> None:
    weights = tiny_weights()
    weights["model.norm.weight"][3] = float("nan")
    read = TensorMap(read_gguf(write_gguf(tmp_path / "a.gguf", TINY, gguf_tensors(weights)))[1])
    with pytest.raises(ModelError, match=r"the weight model.norm.weight holds nan at element 3"):
        read["model.norm.weight"]
