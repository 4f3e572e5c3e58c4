"""Small vocabularies in GGUF files, and the ids llama.cpp gives for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.gguf_files import TINY, write_gguf

FIXTURES = Path(__file__).parents[1] / "fixtures"


def read_fixture(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FIXTURES / name).read_text(encoding="utf-8"))
    return content


def write_byte_level(path: Path, pre: str, changes: dict[str, object] | None = None) -> Path:
    """Write the vocabulary of the pre-tokenizer fixture."""
    fixture = read_fixture("llama_cpp_pretokenizer_ids.json")
    tokens = fixture["tokens"]
    normal = len(tokens) - fixture["num_control"] - fixture["num_user_defined"]
    return _write(
        path,
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": pre,
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.merges": fixture["merges"],
            "tokenizer.ggml.token_type": [3] * fixture["num_control"]
            + [1] * normal
            + [4] * fixture["num_user_defined"],
            "tokenizer.ggml.bos_token_id": fixture["bos"],
            "tokenizer.ggml.eos_token_id": fixture["eos"],
        },
        changes,
    )


def write_sentencepiece(path: Path, changes: dict[str, object] | None = None) -> Path:
    """Write the vocabulary of the sentencepiece fixture."""
    fixture = read_fixture("llama_cpp_sentencepiece_ids.json")
    return _write(
        path,
        {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.pre": "default",
            "tokenizer.ggml.tokens": fixture["tokens"],
            "tokenizer.ggml.scores": fixture["scores"],
            "tokenizer.ggml.token_type": fixture["types"],
            "tokenizer.ggml.bos_token_id": fixture["bos"],
            "tokenizer.ggml.eos_token_id": fixture["eos"],
            "tokenizer.ggml.unknown_token_id": fixture["unknown"],
        },
        changes,
    )


def _write(path: Path, metadata: dict[str, object], changes: dict[str, object] | None) -> Path:
    merged = {**TINY, **metadata, **(changes or {})}
    return write_gguf(path, {key: value for key, value in merged.items() if value is not None}, {})
