"""What a folder of shards says of itself: whose tokens they are, which taps, and the hash of each file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from paradraft.core.errors import AlignmentError, ModelError
from paradraft.train.files import write_text

FORMAT = 1
FILE = "manifest.json"
TAP_DTYPE = "float16"
MAX_SHARDS = 1_000_000
_REMEDY = "Capture again, or use a folder that `paradraft train capture` wrote."

Facts = Mapping[str, str | int | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardEntry:
    """One shard: a file of tokens, and a file of taps unless it was left out or dropped."""

    number: int
    num_sequences: int
    num_tokens: int
    tokens_sha256: str
    taps_sha256: str | None = None
    num_saturated: int = 0  # tap values that were larger than the dtype holds

    @property
    def tokens_file(self) -> str:
        """Return the name of the file of tokens."""
        return f"shard_{self.number:04d}.safetensors"

    @property
    def taps_file(self) -> str:
        """Return the name of the file of taps."""
        return f"taps_{self.number:04d}.safetensors"


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """A folder of shards. target: facts that identify the model whose tokens these are, name among them.

    sources: what Captured.source may be; shards hold the index. plan: whatever else decided the content, as
    a JSON object.
    """

    target: Facts
    tap_layers: tuple[int, ...]
    hidden_size: int
    vocab_size: int
    sources: tuple[str, ...]
    plan: str = ""
    shards: tuple[ShardEntry, ...] = ()

    @property
    def tap_width(self) -> int:
        """Return the number of tap values per token."""
        return len(self.tap_layers) * self.hidden_size

    @property
    def taps_bytes(self) -> int:
        """Return the size of all taps that are kept."""
        return sum(shard.num_tokens for shard in self.shards if shard.taps_sha256) * self.tap_width * 2

    @property
    def num_tokens(self) -> int:
        """Return the number of tokens in all shards, prompts included."""
        return sum(shard.num_tokens for shard in self.shards)

    def require_same(self, other: Manifest, folder: Path) -> None:
        """Raise AlignmentError if other continues something else than what lies in the folder."""
        for name in ("target", "tap_layers", "hidden_size", "vocab_size", "sources", "plan"):
            there, here = getattr(self, name), getattr(other, name)
            if there != here:
                if name == "plan":
                    name, there, here = _difference(self.plan, other.plan)
                raise AlignmentError(
                    f"{folder} was captured with {name}={there!r}, and this run has {name}={here!r}.",
                    remedy="Use another folder, or repeat the command that the folder was begun with.",
                )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest whole; raise ModelError if that fails."""
    record = {"format": FORMAT, "dtype": TAP_DTYPE, **asdict(manifest)}
    write_text(folder / FILE, json.dumps(record, indent=1) + "\n")


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder; raise ModelError if it is missing, damaged or of another format."""
    path = folder / FILE
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({error}).", remedy=_REMEDY) from error
    if not isinstance(record, dict) or record.get("format") != FORMAT or record.get("dtype") != TAP_DTYPE:
        raise ModelError(f"{path} is not a manifest of format {FORMAT} with {TAP_DTYPE} taps.", remedy=_REMEDY)
    try:
        manifest = _parse(record)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path} is damaged ({error}).", remedy=_REMEDY) from error
    return manifest


def _difference(one: str, other: str) -> tuple[str, object, object]:
    """Return the first entry in which two plans differ, with both values."""
    try:
        ours, theirs = json.loads(one), json.loads(other)
        return next(
            (name, ours.get(name), theirs.get(name))
            for name in {**ours, **theirs}
            if ours.get(name) != theirs.get(name)
        )
    except (ValueError, AttributeError, TypeError, StopIteration):
        return "plan", one, other


def _parse(record: dict[str, object]) -> Manifest:
    shards, target = _list(record["shards"]), record["target"]
    if not isinstance(target, dict) or not all(type(value) in (str, int, type(None)) for value in target.values()):
        raise ValueError("target is not a set of facts")
    entries = tuple(_parse_entry(entry) for entry in shards)
    numbers = [entry.number for entry in entries]
    if numbers != sorted(set(numbers)):
        raise ValueError("shards are out of order")
    return Manifest(
        target=target,
        tap_layers=tuple(_whole(layer, -1, 10_000) for layer in _list(record["tap_layers"])),
        hidden_size=_whole(record["hidden_size"], 1, 2**20),
        vocab_size=_whole(record["vocab_size"], 1, 2**31 - 1),
        sources=tuple(str(name) for name in _list(record["sources"])),
        plan=str(record["plan"]),
        shards=entries,
    )


def _parse_entry(record: object) -> ShardEntry:
    if not isinstance(record, dict) or set(record) != {field.name for field in fields(ShardEntry)}:
        raise ValueError("a shard has other keys than those known")
    return ShardEntry(
        number=_whole(record["number"], 0, MAX_SHARDS),
        num_sequences=_whole(record["num_sequences"], 0, 2**31 - 1),
        num_tokens=_whole(record["num_tokens"], 0, 2**31 - 1),
        tokens_sha256=_digest(record["tokens_sha256"]),
        taps_sha256=None if record["taps_sha256"] is None else _digest(record["taps_sha256"]),
        num_saturated=_whole(record["num_saturated"], 0, 2**62),
    )


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is not a list")
    return value


def _whole(value: object, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{value!r} is not a whole number from {low} to {high}")
    return value


def _digest(value: object) -> str:
    if not isinstance(value, str) or len(value) != 64 or set(value) - set("0123456789abcdef"):
        raise ValueError(f"{value!r} is not a SHA-256")
    return value
