"""A table in one file: a line of magic, a checked JSON header, then the arrays, mapped into memory as they lie.

Layout, all integers little-endian: 8 bytes magic, 8 bytes length of the header, the header (UTF-8 JSON), zeros up to a
multiple of 64, then each array at its offset from there, aligned to 64 bytes. The header holds the SHA-256 of all that
follows it, and where each array begins.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from paradraft.core.errors import ModelError
from paradraft.drafters.table.check import check_table, field_of
from paradraft.drafters.table.layout import Order, Origin, Table

MAGIC = b"pdtable1"
MAX_HEADER = 2**20
_ALIGN = 64
_TYPES: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
_ARRAYS = ("heads", "marks", "totals", "begins", "tokens", "counts")
_REMEDY = "Build the table again with `paradraft train table`."


def write_table(table: Table, path: Path) -> None:
    """Write a table, whole or not at all; raise ModelError if the place cannot be written."""
    body = b"".join(_padded(array.astype(_TYPES[array.dtype.name], copy=False).tobytes()) for array in _arrays(table))
    header = json.dumps(_header(table, hashlib.sha256(body).hexdigest())).encode()
    content = _padded(MAGIC + len(header).to_bytes(8, "little") + header) + body
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ModelError(
            f"{path} cannot be written ({error.strerror or error}).", remedy="Free some space or use another folder."
        ) from error


def read_table(path: Path, *, vocab_size: int | None = None) -> Table:
    """Map a table into memory; raise ModelError if it is damaged, AlignmentError if its vocabulary is another."""
    try:
        content = np.memmap(path, dtype=np.uint8, mode="r")
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({error}).", remedy="Check the path of the table.") from error
    header, begin = _read_header(content, path)
    body = content[begin:]
    if hashlib.sha256(body.data).hexdigest() != header.get("sha256"):
        raise ModelError(f"{path} is damaged: its SHA-256 is not the one in its header.", remedy=_REMEDY)
    orders = tuple(_read_order(entry, body, path) for entry in field_of(header, "orders", list, path))
    table = Table(
        vocab_size=field_of(header, "vocab_size", int, path),
        num_tokens=field_of(header, "num_tokens", int, path),
        orders=orders,
        origin=_read_origin(header),
    )
    check_table(table, path, vocab_size)
    return table


def _header(table: Table, digest: str) -> dict[str, Any]:
    orders, at = [], 0
    for order in table.orders:
        places = {}
        for name, array in order.arrays().items():
            places[name] = {"at": at, "length": len(array), "type": array.dtype.name}
            at += -(-array.nbytes // _ALIGN) * _ALIGN
        orders.append({"length": order.length, "discounts": list(order.discounts), "arrays": places})
    origin = table.origin
    return {
        "vocab_size": table.vocab_size,
        "num_tokens": table.num_tokens,
        "target": origin.target,
        "tokenizer_sha256": origin.tokenizer_sha256,
        "sources": list(origin.sources),
        "sha256": digest,
        "orders": orders,
    }


def _read_header(content: npt.NDArray[np.uint8], path: Path) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(content[8:16].tobytes(), "little")
    if content[:8].tobytes() != MAGIC:
        raise ModelError(f"{path} is not a table: it does not begin with {MAGIC.decode()}.", remedy=_REMEDY)
    if not 0 < length <= min(MAX_HEADER, len(content) - 16):
        raise ModelError(f"{path} names a header of {length} bytes, which it does not hold.", remedy=_REMEDY)
    try:
        header = json.loads(content[16 : 16 + length].tobytes())
    except ValueError as error:
        raise ModelError(f"{path} has a header that is no JSON ({error}).", remedy=_REMEDY) from error
    if not isinstance(header, dict):
        raise ModelError(f"{path} has a header that is no JSON object.", remedy=_REMEDY)
    return header, -(-(16 + length) // _ALIGN) * _ALIGN


def _read_order(entry: dict[str, Any], body: npt.NDArray[np.uint8], path: Path) -> Order:
    if not isinstance(entry, dict):
        raise ModelError(f"{path} has an order that is no JSON object.", remedy=_REMEDY)
    places = field_of(entry, "arrays", dict, path)
    arrays = {name: _read_array(field_of(places, name, dict, path), body, path) for name in _ARRAYS}
    discounts = field_of(entry, "discounts", list, path)
    if len(discounts) != 3 or not all(isinstance(value, (int, float)) and 0 <= value < 3 for value in discounts):
        raise ModelError(f"{path} has discounts {discounts}.", remedy=_REMEDY)
    return Order(length=field_of(entry, "length", int, path), discounts=tuple(discounts), **arrays)


def _read_array(entry: dict[str, Any], body: npt.NDArray[np.uint8], path: Path) -> npt.NDArray[Any]:
    at, length = field_of(entry, "at", int, path), field_of(entry, "length", int, path)
    kind = _TYPES.get(field_of(entry, "type", str, path))
    if kind is None or at % _ALIGN or at + length * kind.itemsize > len(body):
        raise ModelError(f"{path} is cut short, or names an array that it does not hold.", remedy=_REMEDY)
    return np.asarray(body[at : at + length * kind.itemsize].view(kind))


def _read_origin(header: dict[str, Any]) -> Origin:
    sources = header.get("sources", [])
    return Origin(
        target=str(header.get("target", "")),
        tokenizer_sha256=str(header.get("tokenizer_sha256", "")),
        sources=tuple(str(source) for source in sources) if isinstance(sources, list) else (),
    )


def _arrays(table: Table) -> Iterator[npt.NDArray[Any]]:
    for order in table.orders:
        yield from order.arrays().values()


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % _ALIGN)
