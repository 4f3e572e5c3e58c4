"""Counts a table for drafting from what a target was captured to say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from paradraft.core.errors import AlignmentError, ConfigError
from paradraft.drafters.table.count import MIN_COUNTS, ORDERS, CountedText, count_table
from paradraft.drafters.table.file import read_table, write_table
from paradraft.drafters.table.layout import Origin, Table
from paradraft.train.manifest import Manifest
from paradraft.train.shards import ShardReader


@dataclass(frozen=True, kw_only=True, slots=True)
class TableOptions:
    """How a table is counted. max_bytes None: as large as it gets."""

    orders: tuple[int, ...] = ORDERS
    min_counts: tuple[int, ...] = MIN_COUNTS
    max_bytes: int | None = None
    sources: tuple[str, ...] = ()  # of the texts; (): all
    begin_from: Path | None = None  # a table whose counts are added


def build_table(folders: Sequence[Path], path: Path, options: TableOptions | None = None) -> Table:
    """Count the answers in folders of shards, write the table to path and return it.

    Raises ModelError for damaged shards or a place that cannot be written, AlignmentError for folders of different
    targets, ConfigError for options that fit nothing.
    """
    options = options or TableOptions()
    readers = [ShardReader(folder) for folder in folders]
    _check(readers, options)
    first = readers[0].manifest
    base = None if options.begin_from is None else _base(options.begin_from, first)
    sources = options.sources or tuple(sorted({name for reader in readers for name in reader.manifest.sources}))
    table = count_table(
        _texts(readers, frozenset(sources)),
        vocab_size=first.vocab_size,
        orders=options.orders,
        min_counts=options.min_counts,
        max_bytes=options.max_bytes,
        origin=Origin(
            target=str(first.target.get("name") or ""),
            tokenizer_sha256=str(first.target.get("tokenizer_sha256") or ""),
            sources=tuple(sorted({*sources, *(() if base is None else base.origin.sources)})),
        ),
        base=base,
    )
    write_table(table, path)
    return table


def _texts(readers: Sequence[ShardReader], sources: frozenset[str]) -> Iterator[CountedText]:
    """Yield the conversations; their answers are counted, with the prompt as context."""
    for reader in readers:
        for captured in reader.sequences(with_taps=False):
            if captured.source in sources:
                yield CountedText(ids=captured.ids, prompt_len=captured.prompt_len)


def _base(path: Path, manifest: Manifest) -> Table:
    base = read_table(path, vocab_size=manifest.vocab_size)
    known = str(manifest.target.get("tokenizer_sha256") or "")
    if base.origin.tokenizer_sha256 not in ("", known):
        raise AlignmentError(
            f"{path} was counted with another tokenizer than the texts were captured with.",
            remedy="Begin from a table of the same target, or from none.",
        )
    return base


def _check(readers: Sequence[ShardReader], options: TableOptions) -> None:
    if not readers:
        raise ConfigError("No folder of shards was given.", remedy="Name folders that `paradraft train capture` wrote.")
    first = readers[0]
    for reader in readers[1:]:
        if dict(reader.manifest.target) != dict(first.manifest.target):
            raise AlignmentError(
                f"{reader.folder} was captured from another target than {first.folder}.",
                remedy="Count folders of one target, with one tokenizer and chat template.",
            )
    known = {name for reader in readers for name in reader.manifest.sources}
    unknown = [name for name in options.sources if name not in known]
    if unknown:
        raise ConfigError(
            f"No text comes from {unknown[0]!r}.", remedy=f"Choose sources from {', '.join(sorted(known))}."
        )
