from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType

from paradraft.core.errors import ModelError
from paradraft.models.gguf.file import map_file
from paradraft.models.gguf.header import SUPPORTED_TYPES, read_header
from support.gguf_files import TINY, write_gguf

VALUES = np.arange(128, dtype=np.float32).reshape(2, 64)


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def head(*entries: bytes, tensors: tuple[bytes, ...] = (), version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries)) + b"".join(entries) + b"".join(tensors)


def entry(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def test_metadata_of_every_type_is_read() -> None:
    forms = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    entries = [entry(str(kind), kind, struct.pack(f"<{form}", 1)) for kind, form in forms.items()]
    entries.append(entry("text", 8, text("caf\u00e9")))
    entries.append(entry("texts", 9, struct.pack("<IQ", 8, 2) + text("a") + text("")))
    entries.append(entry("numbers", 9, struct.pack("<IQ3h", 3, 3, -1, 0, 1)))
    metadata = read_header(head(*entries), Path("x")).metadata
    assert [metadata[str(kind)] for kind in forms] == [1] * len(forms)
    assert (metadata["text"], metadata["texts"], metadata["numbers"]) == ("caf\u00e9", ["a", ""], [-1, 0, 1])


def test_tensors_have_torchs_shape_and_their_place_in_the_file(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", TINY, {"output.weight": VALUES, "output_norm.weight": VALUES[0]})
    data, header = map_file(path)
    record = header.tensors["output.weight"]
    assert (record.shape, record.num_bytes) == ((2, 64), 512)
    assert np.frombuffer(data, np.float32, 128, record.offset).tolist() == VALUES.flatten().tolist()


def test_lists_of_texts_can_be_left_out(tmp_path: Path) -> None:
    content = TINY | {"tokenizer.ggml.tokens": ["a", "", "caf\u00e9"], "general.name": "tiny"}
    whole = write_gguf(tmp_path / "a.gguf", content, {"output.weight": VALUES}).read_bytes()
    full, rest = read_header(whole, Path("x")), read_header(whole, Path("x"), with_texts=False)
    assert rest.tensors == full.tensors
    assert rest.metadata == {**full.metadata, "tokenizer.ggml.tokens": []}


@pytest.mark.parametrize("with_texts", [True, False])
def test_a_file_cut_short_anywhere_is_refused(with_texts: bool, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", TINY | {"tokenizer.ggml.tokens": ["a", "b"]}, {"output.weight": VALUES})
    whole = path.read_bytes()
    read_header(whole, path, with_texts=with_texts)
    for size in range(4, len(whole), 7):
        with pytest.raises(ModelError, match=r"ends in the middle of its head|cut short|is damaged"):
            read_header(whole[:size], path, with_texts=with_texts)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is not a GGUF file"),
        (b"PK\x03\x04....", r"is not a GGUF file \(it starts with b'PK"),
        (head(version=1), "is GGUF version 1"),
        (head(version=3 << 24), "is GGUF version"),
        (head(entry("a", 4, b"\0" * 4), entry("a", 4, b"\0" * 4)), "the key a appears twice"),
        (head(entry("a", 99, b"\0" * 4)), "metadata type 99 is not known"),
        (head(entry("a", 9, struct.pack("<IQ", 9, 0))), "arrays of metadata type 9"),
        (head(entry("a", 9, struct.pack("<IQ", 4, 2**62))), "items cannot fit"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "items cannot fit"),
        (head(entry("general.alignment", 4, struct.pack("<I", 24))), "general.alignment=24 is not a power of two"),
        (head(entry("split.count", 2, struct.pack("<H", 3))), "one of 3 parts"),
        (head(tensors=(tensor("t", (1, 1, 1, 1, 1), 0),)), "the tensor t has 5 dimensions"),
        (head(tensors=(tensor("t", (32,), 0), tensor("t", (32,), 0))) + b"\0" * 512, "the tensor t appears twice"),
        (head(tensors=(tensor("t", (33,), 8),)) + b"\0" * 512, r"the tensor t has shape \[33\]"),
        (head(tensors=(tensor("t", (0,), 0),)) + b"\0" * 512, r"the tensor t has shape \[0\]"),
        (head(tensors=(tensor("t", (32,), 0, 2**40),)) + b"\0" * 512, "cut short: the tensor t ends at byte"),
    ],
)
def test_a_head_that_makes_no_sense_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        read_header(data, Path("file.gguf"))


@pytest.mark.parametrize("kind", [kind for kind in GGMLQuantizationType if kind not in SUPPORTED_TYPES])
def test_unsupported_tensor_types_are_refused_by_name(kind: GGMLQuantizationType) -> None:
    data = head(tensors=(tensor("blk.0.attn_q.weight", (256,), kind.value),)) + b"\0" * 4096
    with pytest.raises(ModelError, match=rf"blk.0.attn_q.weight has type {kind.name}, .*Q6_K"):
        read_header(data, Path("file.gguf"))


def test_a_type_number_nobody_knows_is_refused_too() -> None:
    with pytest.raises(ModelError, match="has type 999"):
        read_header(head(tensors=(tensor("t", (32,), 999),)) + b"\0" * 512, Path("file.gguf"))


def test_an_empty_or_missing_file_is_an_error_with_the_path(tmp_path: Path) -> None:
    (tmp_path / "empty.gguf").touch()
    for name in ("empty.gguf", "missing.gguf"):
        with pytest.raises(ModelError, match=rf"{name} cannot be read"):
            map_file(tmp_path / name)
