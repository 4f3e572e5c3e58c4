"""A folder appears whole, or not at all, and may be read by those who may enter it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from paradraft.core.errors import ModelError
from paradraft.models.new_folder import new_folder


def test_weights_are_as_readable_as_what_lies_beside_them(tmp_path: Path) -> None:
    with new_folder(tmp_path / "model") as folder:
        save_file({"a": torch.zeros(2)}, folder / "model.safetensors")
        (folder / "config.json").write_text("{}")
    modes = {path.name: path.stat().st_mode for path in (tmp_path / "model").iterdir()}
    assert modes["model.safetensors"] == modes["config.json"]


def test_a_folder_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with new_folder(tmp_path / "model") as folder:
            (folder / "config.json").write_text("{}")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not list(tmp_path.iterdir())


def test_a_folder_with_content_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").write_text("kept")
    with pytest.raises(ModelError, match="not an empty folder"), new_folder(tmp_path / "model"):
        pass
    assert (tmp_path / "model" / "mine").read_text() == "kept"
