"""The tables that drafters borrow are those of the target's files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from paradraft.core.errors import ModelError
from paradraft.models.checkpoint import find_model, open_checkpoint
from paradraft.models.decoder_names import EMBEDDING, HEAD
from paradraft.models.load import ModelIdentity
from paradraft.models.stored import EVERY, Table
from paradraft.models.tables import read_tables, tables_of
from paradraft.models.tensors import tensor_of
from paradraft.models.tiny import write_tiny_model


def whole(table: Table) -> torch.Tensor:
    return tensor_of(table.rows(EVERY))


def identity(folder: Path) -> ModelIdentity:
    return ModelIdentity(name="tiny", sha256="", revision=None, path=folder)


def test_a_tied_model_has_one_table_for_both(tmp_path: Path):
    folder = write_tiny_model(tmp_path / "tied", "llama", 1)
    tables = read_tables(identity(folder))
    assert tables.embedding is tables.head
    assert torch.equal(whole(tables_of(open_checkpoint(find_model(str(folder)))).head), whole(tables.head))
    assert torch.equal(whole(tables.embedding), load_file(folder / "model.safetensors")[EMBEDDING])


def test_an_untied_model_has_two(tmp_path: Path):
    folder = write_tiny_model(tmp_path / "untied", "qwen3", 1)
    tables = read_tables(identity(folder))
    stored = load_file(folder / "model.safetensors")
    assert torch.equal(whole(tables.head), stored[HEAD])
    assert torch.equal(whole(tables.embedding), stored[EMBEDDING])
    assert not torch.equal(whole(tables.head), whole(tables.embedding))


def test_a_model_that_calls_its_embedding_otherwise_is_refused(tmp_path: Path):
    folder = write_tiny_model(tmp_path / "other", "llama", 1)
    stored = load_file(folder / "model.safetensors")
    stored["transformer.wte.weight"] = stored.pop(EMBEDDING)
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="embed_tokens"):
        read_tables(identity(folder))
