"""The two files of a shard: written whole, and checked for everything that would harm whoever reads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file

from paradraft.core.arrays import IntArray, ints
from paradraft.core.errors import ModelError
from paradraft.hub.digests import file_digest, remember
from paradraft.train.files import write_whole
from paradraft.train.manifest import Manifest, ShardEntry

HalfArray = npt.NDArray[np.float16]
Arrays = dict[str, npt.NDArray[np.generic]]
_DTYPES = MappingProxyType({"float16": "F16", "int32": "I32", "int64": "I64"})  # what shards are made of
_INFINITY = np.uint16(0x7C00)  # exponent bits of a half-precision number that is not finite
_MOST = np.float16(65504)  # the largest finite one


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Captured:
    """One conversation: a prompt as it was served, and the target's answer.

    taps [n, layers * hidden size]: row i belongs to ids[i]. The last token was never fed, so its row is zero and
    means nothing. None: not kept.
    """

    ids: IntArray  # [n] prompt and answer
    prompt_len: int
    taps: HalfArray | None
    source: str


def write_arrays(path: Path, arrays: Mapping[str, Sequence[npt.NDArray[np.generic]]]) -> str:
    """Write arrays, each given in parts along its first axis, as a safetensors file; return its SHA-256.

    The parts go to the disk one by one, so no copy of the whole is made. Raises ModelError if the disk is full.
    """
    digest = hashlib.sha256()
    header = _header(arrays)

    def write(partial: Path) -> None:
        with partial.open("wb") as file:
            for block in (header, *(_little_endian(part) for parts in arrays.values() for part in parts)):
                digest.update(block)
                file.write(block)

    write_whole(path, write)
    remember(path, digest.hexdigest())
    return digest.hexdigest()


def _header(arrays: Mapping[str, Sequence[npt.NDArray[np.generic]]]) -> bytes:
    """Return the head of a safetensors file: its length in 8 bytes, then JSON, padded to whole 8 bytes."""
    entries: dict[str, object] = {}
    end = 0
    for name, parts in arrays.items():
        begin, end = end, end + sum(part.nbytes for part in parts)
        shape = [sum(len(part) for part in parts), *parts[0].shape[1:]]
        entries[name] = {"dtype": _DTYPES[parts[0].dtype.name], "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(entries).encode("ascii")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _little_endian(part: npt.NDArray[np.generic]) -> bytes:
    return np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).tobytes()


def read_tokens(folder: Path, entry: ShardEntry, manifest: Manifest) -> Arrays:
    """Return ids, starts, prompt_len and source of a shard; raise ModelError unless all of it can be trusted."""
    path = folder / entry.tokens_file
    check_digest(path, entry.tokens_sha256)
    try:
        tokens: Arrays = dict(load_file(path))
    except (OSError, ValueError, SafetensorError) as error:
        raise damaged(path, str(error)) from error
    problem = _fault(tokens, manifest)
    if problem or len(tokens["ids"]) != entry.num_tokens or len(tokens["source"]) != entry.num_sequences:
        raise damaged(path, problem or "it holds other counts than the manifest says")
    return tokens


def read_taps(path: Path, low: int, high: int, width: int) -> HalfArray:
    """Return rows low .. high of the taps of a shard, [high - low, width]; raise ModelError if they are unusable."""
    try:
        with safe_open(path, framework="numpy") as file:
            taps = np.asarray(file.get_slice("taps")[low:high])
    except (OSError, ValueError, SafetensorError) as error:
        raise damaged(path, str(error)) from error
    if taps.dtype != np.float16 or taps.shape != (high - low, width):
        raise damaged(path, f"taps are {taps.dtype} {taps.shape}, not float16 of width {width}")
    check_finite(taps, path)
    return taps


def is_sound(folder: Path, entry: ShardEntry) -> bool:
    """Whether both files of a shard are what the manifest says."""
    try:
        check_digest(folder / entry.tokens_file, entry.tokens_sha256)
        if entry.taps_sha256 is not None:
            check_digest(folder / entry.taps_file, entry.taps_sha256)
    except ModelError:
        return False
    return True


def check_digest(path: Path, sha256: str) -> None:
    """Raise ModelError unless the file is there and has this hash."""
    try:
        digest = file_digest(path)
    except OSError as error:
        raise damaged(path, error.strerror or str(error)) from error
    if digest != sha256:
        raise damaged(path, f"its SHA-256 is {digest}, and the manifest says {sha256}")


def check_finite(taps: HalfArray, where: object) -> None:
    """Raise ModelError if a tap is NaN or infinite."""
    is_bad = (taps.view(np.uint16) & _INFINITY) == _INFINITY
    if is_bad.any():
        row = int(is_bad.any(axis=1).argmax())
        raise ModelError(
            f"{where}: {int(is_bad.sum())} taps are NaN or infinite, the first at token {row}.",
            remedy="Capture these sequences again; if it stays, run the target in fp32.",
        )


def damaged(path: Path, why: str) -> ModelError:
    """Return the ModelError of a file that cannot be used."""
    return ModelError(f"{path} is damaged: {why}.", remedy="Run the same capture again: it makes damaged shards anew.")


def saturate(values: npt.NDArray[np.float32]) -> HalfArray:
    """Return taps in half precision; what is too large becomes the largest number, NaN stays NaN."""
    return np.clip(values, -float(_MOST), float(_MOST)).astype(np.float16)


def count_saturated(taps: HalfArray) -> int:
    """Return how many values were cut to the largest half-precision number."""
    return int(np.count_nonzero((taps == _MOST) | (taps == -_MOST)))


def join_sequences(sequences: Sequence[Captured], manifest: Manifest) -> tuple[Arrays, list[HalfArray]]:
    """Return the tokens of a shard and the taps of its sequences, none unless all have them. Raises ModelError."""
    known = {name: number for number, name in enumerate(manifest.sources)}
    starts = np.cumsum([0, *[len(each.ids) for each in sequences]], dtype=np.int64)
    tokens: Arrays = {
        "ids": ints(np.concatenate([each.ids for each in sequences])) if sequences else ints([]),
        "starts": starts,
        "prompt_len": ints([each.prompt_len for each in sequences]),
        "source": ints([known.get(each.source, -1) for each in sequences]),
    }
    problem = _fault(tokens, manifest)
    if problem:
        raise ModelError(f"A captured sequence cannot be stored: {problem}.", remedy="This is a fault of its maker.")
    taps = [each.taps for each in sequences if each.taps is not None]
    if len(taps) < len(sequences):
        return tokens, []
    for each, array in zip(sequences, taps, strict=True):
        _check_taps(array, len(each.ids), manifest.tap_width)
    return tokens, taps


def _check_taps(taps: HalfArray, num_tokens: int, width: int) -> None:
    if taps.shape != (num_tokens, width) or taps.dtype != np.float16:
        raise ModelError(
            f"Taps {taps.dtype} {taps.shape} do not fit {num_tokens} tokens of width {width}.",
            remedy="Store float16 taps of every layer for every token.",
        )
    check_finite(taps, "A shard to be written")


def _fault(tokens: Mapping[str, npt.NDArray[np.generic]], manifest: Manifest) -> str:
    """Return what is wrong with the tokens of a shard, "" if nothing is."""
    wanted = {"ids": np.int32, "starts": np.int64, "prompt_len": np.int32, "source": np.int32}
    if any(name not in tokens or tokens[name].dtype != kind or tokens[name].ndim != 1 for name, kind in wanted.items()):
        return f"it does not hold the vectors {', '.join(wanted)}"
    ids, starts, prompt_len, source = (np.asarray(tokens[name], dtype=np.int64) for name in wanted)
    lengths = np.diff(starts)
    if len(starts) < 1 or starts[0] != 0 or starts[-1] != len(ids) or (lengths < 1).any():
        return "starts do not cover its ids"
    if len(prompt_len) != len(lengths) or len(source) != len(lengths):
        return f"{len(lengths)} sequences have {len(prompt_len)} prompt lengths and {len(source)} sources"
    if ((prompt_len < 1) | (prompt_len >= lengths)).any():
        return "a prompt is empty, or nothing follows it"
    if ((source < 0) | (source >= len(manifest.sources))).any():
        return f"a source is none of {', '.join(manifest.sources)}"
    if len(ids) and (ids.min() < 0 or ids.max() >= manifest.vocab_size):
        return f"ids reach from {ids.min()} to {ids.max()} in a vocabulary of {manifest.vocab_size}"
    return ""
