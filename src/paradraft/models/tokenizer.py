"""Finds the tokenizer that belongs to a model."""

from __future__ import annotations

from pathlib import Path

from paradraft.models.fast_tokenizer import FastTokenizer
from paradraft.models.folder.tokenizer import read_folder_tokenizer
from paradraft.models.gguf.tokenizer import read_gguf_tokenizer


def load_tokenizer(path: str | Path) -> FastTokenizer:
    """Return the tokenizer of a model folder or GGUF file; raise ModelError if there is none that can be used."""
    place = Path(path).expanduser()
    return read_folder_tokenizer(place) if place.is_dir() else read_gguf_tokenizer(place)
