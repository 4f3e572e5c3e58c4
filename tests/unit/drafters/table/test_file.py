from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import AlignmentError, ModelError
from paradraft.drafters.table.count import CountedText, count_table
from paradraft.drafters.table.file import MAGIC, read_table, write_table
from paradraft.drafters.table.layout import Origin, Table
from paradraft.drafters.table.lookup import TableLookup

ORIGIN = Origin(target="tiny", tokenizer_sha256="ab", sources=("one", "two"))


def a_table(vocab_size: int = 64) -> Table:
    text = np.random.default_rng(4).integers(0, 9, 500)
    return count_table([CountedText(ids=ints(text))], vocab_size=vocab_size, origin=ORIGIN)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "table.bin"
    write_table(a_table(), file)
    return file


@pytest.mark.parametrize("vocab_size", [64, 2**17])
def test_a_table_comes_back_as_it_was(tmp_path: Path, vocab_size: int) -> None:
    table = a_table(vocab_size)
    write_table(table, tmp_path / "t")
    found = read_table(tmp_path / "t", vocab_size=vocab_size)
    assert (found.vocab_size, found.num_tokens, found.origin) == (vocab_size, 500, ORIGIN)
    for ours, theirs in zip(table.orders, found.orders, strict=True):
        assert ours.discounts == theirs.discounts
        assert all((ours.arrays()[name] == array).all() for name, array in theirs.arrays().items())
    assert TableLookup(found).shares([3, 1, 2], None) == TableLookup(table).shares([3, 1, 2], None)
    write_table(found, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "t").read_bytes()


def test_the_file_is_mapped_and_not_read_into_memory(path: Path) -> None:
    array = read_table(path).orders[0].tokens
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base  # type: ignore[assignment]
    assert isinstance(array, np.memmap)
    assert not array.flags.writeable


def test_a_file_cut_short_anywhere_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for length in {0, 7, 15, 16, 40, *range(100, len(whole), 997), len(whole) - 1}:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match=r"table\.bin"):
            read_table(path)


def test_any_changed_byte_of_the_counts_is_noticed(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    for place in range(len(whole) - 700, len(whole) - 70, 211):
        changed = whole.copy()
        changed[place] ^= 0x40
        path.write_bytes(changed)
        with pytest.raises(ModelError, match="SHA-256"):
            read_table(path)


def test_another_vocabulary_is_refused(path: Path) -> None:
    with pytest.raises(AlignmentError, match="vocabulary of 64, and the target has 65"):
        read_table(path, vocab_size=65)


def test_a_missing_file_and_a_foreign_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        read_table(tmp_path / "none")
    (tmp_path / "other").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelError, match="is not a table"):
        read_table(tmp_path / "other")


def rewritten(path: Path, change: Any) -> None:
    """Change the header and keep the rest as it is, its hash included."""
    whole = path.read_bytes()
    length = int.from_bytes(whole[8:16], "little")
    header = json.loads(whole[16 : 16 + length])
    change(header)
    body = whole[-(-(16 + length) // 64) * 64 :]
    text = json.dumps(header).encode()
    head = MAGIC + len(text).to_bytes(8, "little") + text
    path.write_bytes(head + bytes(-len(head) % 64) + body)


def array_of(header: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = header["orders"][0]["arrays"][name]
    return found


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.update(vocab_size=3),
        lambda header: header.update(vocab_size=-3),
        lambda header: header.update(num_tokens=True),
        lambda header: header.update(orders={}),
        lambda header: header["orders"].reverse(),
        lambda header: header["orders"][0].update(length=0),
        lambda header: header["orders"][0].update(length=99),
        lambda header: header["orders"][0].update(discounts=[0.1, 0.2]),
        lambda header: header["orders"][0].update(discounts=[0.1, float("nan"), 0.2]),
        lambda header: array_of(header, "tokens").update(length=2**62),
        lambda header: array_of(header, "tokens").update(at=-64),
        lambda header: array_of(header, "tokens").update(at=3),
        lambda header: array_of(header, "tokens").update(type="float64"),
        lambda header: array_of(header, "marks").update(length=1),
        lambda header: array_of(header, "heads").update(length=7),
        lambda header: array_of(header, "heads").update(at=array_of(header, "tokens")["at"]),
        lambda header: array_of(header, "begins").update(at=array_of(header, "marks")["at"]),
        lambda header: header["orders"][0]["arrays"].pop("counts"),
    ],
)
def test_a_header_that_cannot_be_true_is_refused(path: Path, change: Any) -> None:
    """The hash covers the arrays alone, so every number of the header is checked by itself."""
    rewritten(path, lambda header: None)
    read_table(path)
    rewritten(path, change)
    with pytest.raises(ModelError, match=r"table\.bin"):
        read_table(path)


def test_a_place_that_cannot_be_written_is_named_and_nothing_half_written_stays(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be written"):
        write_table(a_table(), tmp_path / "no such folder" / "table")
    assert not list(tmp_path.iterdir())
