"""What a target said and what its layers held while it said it, as checked files.

A folder holds manifest.json, and for each shard two safetensors files:
    shard_NNNN: ids int32 [n], starts int64 [s+1], prompt_len int32 [s], source int32 [s] (into Manifest.sources)
    taps_NNNN: taps float16 [n, layers * hidden size], the layers side by side in the order of Manifest.tap_layers
Tokens are what lasts. Taps are large and can be made again from the tokens, so they may be left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from paradraft.core.arrays import IntArray, ints
from paradraft.hub.locks import exclusive
from paradraft.train.files import sweep
from paradraft.train.manifest import FILE, Manifest, ShardEntry, read_manifest, write_manifest
from paradraft.train.shard_files import (
    Captured,
    HalfArray,
    check_digest,
    count_saturated,
    is_sound,
    join_sequences,
    read_taps,
    read_tokens,
    write_arrays,
)

__all__ = ["Captured", "ShardReader", "ShardWriter"]


class ShardWriter:
    """Adds shards to a folder. Each is there whole or not at all, and several processes may write side by side."""

    def __init__(self, folder: Path, manifest: Manifest, *, max_taps_bytes: int | None = None) -> None:
        """Begin a folder or go on with it.

        manifest: what this run is about, without shards. max_taps_bytes: shards beyond it are tokens only.
        Raises AlignmentError if the folder holds something else, ModelError if it cannot be used.
        """
        self.folder, self._max_taps_bytes = folder, max_taps_bytes
        with self._manifest_lock():
            if (folder / FILE).exists():
                read_manifest(folder).require_same(manifest, folder)
            else:
                write_manifest(folder, replace(manifest, shards=()))
        sweep(folder)

    def finished(self) -> frozenset[int]:
        """Return the numbers of the shards that are there and sound; damaged ones count as missing."""
        shards = read_manifest(self.folder).shards
        return frozenset(shard.number for shard in shards if is_sound(self.folder, shard))

    def listed(self) -> frozenset[int]:
        """Return the numbers of the shards that are there, their files unseen."""
        return frozenset(shard.number for shard in read_manifest(self.folder).shards)

    def write(self, number: int, sequences: Sequence[Captured]) -> ShardEntry:
        """Write a shard, in place of one with this number; raise ModelError for bad content or a full disk."""
        manifest = read_manifest(self.folder)
        tokens, taps = join_sequences(sequences, manifest)
        if not self.has_room(number, sum(part.nbytes for part in taps)):
            taps = []
        entry = ShardEntry(
            number=number,
            num_sequences=len(sequences),
            num_tokens=len(tokens["ids"]),
            tokens_sha256="",
            num_saturated=sum(map(count_saturated, taps)),
        )
        taps_sha256 = write_arrays(self.folder / entry.taps_file, {"taps": taps}) if taps else None
        tokens_sha256 = write_arrays(self.folder / entry.tokens_file, {name: [part] for name, part in tokens.items()})
        entry = replace(entry, tokens_sha256=tokens_sha256, taps_sha256=taps_sha256)
        self._enter(entry)
        return entry

    def has_room(self, number: int, num_bytes: int) -> bool:
        """Whether taps of this size, of the shard with this number, fit into the limit."""
        if self._max_taps_bytes is None:
            return True
        manifest = read_manifest(self.folder)
        others = [shard for shard in manifest.shards if shard.number != number]
        return replace(manifest, shards=tuple(others)).taps_bytes + num_bytes <= self._max_taps_bytes

    def drop_taps(self, number: int) -> None:
        """Keep only the tokens of a shard."""
        (entry,) = (shard for shard in read_manifest(self.folder).shards if shard.number == number)
        self._enter(replace(entry, taps_sha256=None))
        with suppress(OSError):
            (self.folder / entry.taps_file).unlink(missing_ok=True)

    def _enter(self, entry: ShardEntry) -> None:
        with self._manifest_lock():
            manifest = read_manifest(self.folder)
            others = [shard for shard in manifest.shards if shard.number != entry.number]
            shards = tuple(sorted([*others, entry], key=lambda shard: shard.number))
            write_manifest(self.folder, replace(manifest, shards=shards))

    def _manifest_lock(self) -> AbstractContextManager[bool]:
        self.folder.mkdir(parents=True, exist_ok=True)
        return exclusive(self.folder / ".lock")


class ShardReader:
    """Reads a folder of shards. Tokens are in memory, taps come from the disk when they are asked for."""

    def __init__(self, folder: Path) -> None:
        """Read and check all tokens; raise ModelError for a damaged folder. Taps are checked when first used."""
        self.folder, self.manifest = folder, read_manifest(folder)
        self._tokens = [read_tokens(folder, entry, self.manifest) for entry in self.manifest.shards]
        places = [np.full(entry.num_sequences, at) for at, entry in enumerate(self.manifest.shards)]
        self._shard_of = ints(np.concatenate(places)) if places else ints([])
        self._first = np.cumsum([0, *[entry.num_sequences for entry in self.manifest.shards]])
        self._checked: set[int] = set()

    def __len__(self) -> int:
        return len(self._shard_of)

    @property
    def lengths(self) -> IntArray:
        """Return the number of tokens of each sequence."""
        return ints(np.concatenate([np.diff(each["starts"]) for each in self._tokens])) if self._tokens else ints([])

    def has_taps(self, index: int) -> bool:
        """Whether the taps of a sequence were kept."""
        return self.manifest.shards[self._shard_of[index]].taps_sha256 is not None

    def read(self, index: int, *, with_taps: bool = True) -> Captured:
        """Return a sequence by its number; raise ModelError if its taps are damaged or not finite."""
        at = int(self._shard_of[index])
        tokens, within = self._tokens[at], index - int(self._first[at])
        low, high = tokens["starts"][within : within + 2].tolist()
        return Captured(
            ids=tokens["ids"][low:high],  # type: ignore[arg-type]
            prompt_len=int(tokens["prompt_len"][within]),
            taps=self._taps(at, low, high) if with_taps and self.has_taps(index) else None,
            source=self.manifest.sources[int(tokens["source"][within])],
        )

    def shard(self, number: int) -> list[Captured]:
        """Return the tokens of one shard."""
        at = next(at for at, entry in enumerate(self.manifest.shards) if entry.number == number)
        return [self.read(index, with_taps=False) for index in range(int(self._first[at]), int(self._first[at + 1]))]

    def sequences(self, *, with_taps: bool = True) -> Iterator[Captured]:
        """Yield all sequences in order; raise ModelError as read does."""
        for index in range(len(self)):
            yield self.read(index, with_taps=with_taps)

    def _taps(self, at: int, low: int, high: int) -> HalfArray:
        entry = self.manifest.shards[at]
        path = self.folder / entry.taps_file
        if at not in self._checked:
            check_digest(path, entry.taps_sha256 or "")
            self._checked.add(at)
        return read_taps(path, low, high, self.manifest.tap_width)
