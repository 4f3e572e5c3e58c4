"""Files of packed weights give back what was written, aligned, and anything else at their place is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from paradraft.core.errors import ModelError
from paradraft.native.packed_file import PAGE, PackedTable, Part, map_packed, read_identity, write_packed

IDENTITY = {"weights": "abc", "core": 1}
CONTENTS = {name: np.arange(size, dtype=np.uint8) % 251 for name, size in (("a", 100), ("b", PAGE), ("c", PAGE + 1))}


def table_of(**identity: str | int) -> PackedTable:
    parts = {
        name: Part(tensors=(f"{name}.weight",), form="vector", shape=(content.size,), num_bytes=content.size)
        for name, content in CONTENTS.items()
    }
    return PackedTable(identity={**IDENTITY, **identity}, parts=parts)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file.packed"
    write_packed(path, table_of(), CONTENTS.values())
    return path


def test_parts_come_back_aligned_and_read_only(file: Path):
    mapped = map_packed(file, table_of())
    for name, content in CONTENTS.items():
        part = mapped.parts[name]
        assert np.array_equal(part, content)
        assert part.ctypes.data % PAGE == 0
        assert not part.flags.writeable
    assert file.stat().st_size == table_of().file_bytes


def test_the_digest_covers_all_that_follows_the_table(file: Path):
    rest = file.read_bytes()[table_of().data_start :]
    assert map_packed(file, table_of()).data_digest == hashlib.sha256(rest).hexdigest()


def test_parts_outlive_their_file(file: Path):
    part = map_packed(file, table_of()).parts["c"]
    file.unlink()
    assert np.array_equal(part, CONTENTS["c"])


def test_a_file_tells_what_it_holds(file: Path):
    assert read_identity(file) == IDENTITY


def test_a_file_is_never_written_over(file: Path):
    with pytest.raises(FileExistsError):
        write_packed(file, table_of(), CONTENTS.values())


def test_contents_of_another_size_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="99 bytes was given where 100 belong"):
        write_packed(tmp_path / "new", table_of(), [CONTENTS["a"][1:]])
    with pytest.raises(ModelError, match="was not finished"):
        map_packed(tmp_path / "new", table_of())


@pytest.mark.parametrize("place", [*range(0, 96, 7), 8, 12, 16, 24, 96, 200])
def test_every_flipped_bit_of_head_and_table_is_found_or_changes_the_digest(file: Path, place: int):
    content = bytearray(file.read_bytes())
    digest = map_packed(file, table_of()).data_digest
    content[place] ^= 4
    file.write_bytes(content)
    if 56 <= place < 88:  # the digest of the values itself
        assert map_packed(file, table_of()).data_digest != digest
    elif place < 88 or place >= 96:  # eight bytes mean nothing
        with pytest.raises(ModelError, match="Remove it"):
            map_packed(file, table_of())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda content: content[:-1], "cut short"),
        (lambda content: content + b"x", "too long"),
        (lambda content: content[:5000], "cut short"),
        (lambda content: content[:150], "damaged"),
        (lambda content: content[:50], "not a file of packed weights"),
        (lambda _: b"", "not a file of packed weights"),
        (lambda _: b"GGUF" + bytes(9000), "not a file of packed weights"),
        (lambda content: content[:8] + (2).to_bytes(4, "little") + content[12:], "version 2 of the format, not 1"),
        (lambda content: content[:12] + b"\xff" * 4 + content[16:], "damaged"),
    ],
)
def test_what_is_not_the_whole_file_is_refused(file: Path, change: Callable[[bytes], bytes], named: str):
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(ModelError, match=named):
        map_packed(file, table_of())


def test_another_identity_is_named(file: Path):
    with pytest.raises(ModelError, match="was made for core 1, not 2"):
        map_packed(file, table_of(core=2))
    with pytest.raises(ModelError, match="was made for weights 'abc', not 'abd'"):
        map_packed(file, table_of(weights="abd"))


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000, json.dumps({**IDENTITY, "parts": {}})])
def test_a_table_with_a_sound_hash_is_not_trusted_either(file: Path, text: str):
    content = file.read_bytes()
    table = text.encode()
    head = content[:12] + len(table).to_bytes(4, "little") + content[16:24] + hashlib.sha256(table).digest()
    file.write_bytes((head + content[56:96] + table).ljust(table_of().file_bytes, b"\0"))
    with pytest.raises(ModelError, match=r"cannot be read|otherwise"):
        map_packed(file, table_of())


def test_an_absent_file_is_told_from_a_bad_one(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        map_packed(tmp_path / "none", table_of())
