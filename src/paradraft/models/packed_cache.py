"""Weights packed once: saved in the user's cache, and mapped read-only from there at every later start."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from paradraft.core.errors import ModelError
from paradraft.core.version import __version__
from paradraft.hub.cache import make_folder, write_error
from paradraft.hub.digests import file_digest, remember
from paradraft.hub.locks import exclusive
from paradraft.hub.packed import disk_limit, make_room, mark_used, packed_path
from paradraft.models.checkpoint import Checkpoint
from paradraft.models.decoder_config import DecoderConfig
from paradraft.models.native_weights import Packer, assemble_decoder, decoder_packer
from paradraft.models.packed_parts import decoder_parts
from paradraft.native.packed_file import PackedTable, Part, map_packed, write_packed
from paradraft.native.packing import Bytes
from paradraft.native.structs import VERSION
from paradraft.native.weights import ModelWeights

# Grows whenever the same weight files come to be packed to other bytes: other readers, other rounding.
_PACKING = 1
_SHOWN = 12  # digits of a hash in a file's name


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedDecoder:
    """A decoder ready for the native core, and what is worth a word to the user."""

    weights: ModelWeights
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedOrigin:
    """What packed weights are made of: a name for people, and a SHA-256 of everything that they depend on."""

    name: str
    sha256: str


def load_packed(checkpoint: Checkpoint, config: DecoderConfig, *, dtype: str) -> PackedDecoder:
    """Return a decoder over a saved file of packed weights, which is made first if need be.

    Raises what load_parts raises.
    """
    parts, packer = decoder_parts(config, dtype), decoder_packer(config, checkpoint.stored)
    origin = PackedOrigin(name=checkpoint.source.name, sha256=checkpoint.sha256())
    memory, notes = load_parts(parts, packer, origin=origin, dtype=dtype)
    return PackedDecoder(weights=assemble_decoder(config, parts, memory), notes=notes)


def load_parts(
    parts: Mapping[str, Part], packer: Packer, *, origin: PackedOrigin, dtype: str
) -> tuple[Mapping[str, Bytes], tuple[str, ...]]:
    """Return the memory of a model's parts, from a saved file where there is one, and what is worth a word.

    A file that is damaged or was made otherwise is not used but made anew. Where none can be saved, or none is to be
    (PARADRAFT_PACKED_GB=0), the weights are packed in memory. Raises ModelError for weights that cannot be used.
    """
    notes: tuple[str, ...] = ()
    if disk_limit():
        table = PackedTable(identity=_identity(origin, dtype), parts=parts)
        try:
            return SavedWeights(packed_path(_file_name(origin, dtype)), table, packer).obtain()
        except NotSavedError as error:
            notes = (f"Packed weights stay in memory: {error}",)
    return {name: packer.bytes_of(part) for name, part in parts.items()}, notes


class NotSavedError(Exception):
    """Packed weights cannot be saved; the text says why."""


class SavedWeights:
    """One file of the cache, which this or another process fills."""

    def __init__(self, path: Path, table: PackedTable, packer: Packer) -> None:
        """Name the file, what it must hold, and what makes it."""
        self._path = path
        self._table = table
        self._packer = packer

    def obtain(self) -> tuple[Mapping[str, Bytes], tuple[str, ...]]:
        """Return the mapped parts, and notes on a file that was made.

        Of several processes that ask at once one packs and the others wait. Raises NotSavedError if the cache cannot
        be written, ModelError for weights that cannot be packed.
        """
        memory, _ = self._map()
        if memory is not None:
            return memory, ()
        try:
            make_folder(self._path.parent)
            with exclusive(self._path.parent / ".lock") as is_locked:
                memory, wrong = self._map()  # by now another process may have made it
                if memory is None:
                    make_room(self._path, self._table.file_bytes)
                    memory = self._make(may_sweep=is_locked)
                    return memory, (self._note(wrong),)
        except _UnusableWeightsError as error:
            raise error.reason from None
        except ModelError as error:
            raise NotSavedError(error.problem) from error
        return memory, ()

    def _map(self) -> tuple[Mapping[str, Bytes] | None, str | None]:
        """Return the parts of a sound file, else None and what is wrong with the file, if there is one."""
        start = self._table.data_start
        try:
            mapped = map_packed(self._path, self._table)
            if file_digest(self._path, start=start) != mapped.data_digest:
                return None, f"{self._path} is damaged: its weights are not what they were."
        except FileNotFoundError:
            return None, None
        except OSError as error:
            return None, f"{self._path} cannot be read ({error.strerror or error})."
        except ModelError as error:
            return None, error.problem
        mark_used(self._path)
        return mapped.parts, None

    def _make(self, *, may_sweep: bool) -> Mapping[str, Bytes]:
        prefix = f".{self._path.name}.partial-"
        if may_sweep:
            for left_over in self._path.parent.glob(f"{prefix}*"):
                left_over.unlink(missing_ok=True)
        partial = self._path.with_name(f"{prefix}{os.getpid()}")
        try:
            digest = write_packed(partial, self._table, self._contents())
            partial.replace(self._path)
        except OSError as error:
            raise write_error(self._path, error) from error
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
        remember(self._path, digest, start=self._table.data_start)
        memory, wrong = self._map()
        if memory is None:
            raise ModelError(wrong or f"{self._path} is gone.", remedy="Start again.")
        return memory

    def _contents(self) -> Iterator[Bytes]:
        for part in self._table.parts.values():
            try:
                yield self._packer.bytes_of(part)
            except ModelError as error:
                raise _UnusableWeightsError(error) from error

    def _note(self, wrong: str | None) -> str:
        made = f"Packed weights saved, {self._table.file_bytes / 1e6:.0f} MB in {self._path.parent}."
        return made if wrong is None else f"{wrong} Packed weights were made anew."


class _UnusableWeightsError(Exception):
    """The weights themselves cannot be packed, so that it is of no use to try again in memory."""

    def __init__(self, reason: ModelError) -> None:
        super().__init__(reason.problem)
        self.reason = reason


def _identity(origin: PackedOrigin, dtype: str) -> dict[str, str | int]:
    return {
        "weights": origin.sha256,
        "dtype": dtype,
        "paradraft": __version__,
        "packing": _PACKING,
        "core": VERSION,
        "byteorder": sys.byteorder,
    }


def _file_name(origin: PackedOrigin, dtype: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", origin.name).strip(".-")[:60] or "model"
    return f"{name}-{dtype}-{origin.sha256[:_SHOWN]}"
