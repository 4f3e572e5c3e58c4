"""Whether what a file says of a table can be true. Every integer is checked before anything is looked up with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from paradraft.core.errors import AlignmentError, ModelError
from paradraft.drafters.table.layout import MAX_ENTRIES, MAX_ORDER, Order, Table

Kind = TypeVar("Kind")
_REMEDY = "Build the table again with `paradraft train table`."


def field_of(values: dict[str, Any], name: str, kind: type[Kind], path: Path) -> Kind:
    """Return a field of the header that must be there; whole numbers must not be negative."""
    value = values.get(name)
    is_bad_number = kind is int and (isinstance(value, bool) or not isinstance(value, int) or value < 0)
    if not isinstance(value, kind) or is_bad_number:
        raise ModelError(f"{path} says {name}={value!r}.", remedy=_REMEDY)
    return value


def check_table(table: Table, path: Path, vocab_size: int | None) -> None:
    """Raise ModelError for a table that cannot be looked up, AlignmentError for one of another vocabulary."""
    if vocab_size is not None and table.vocab_size != vocab_size:
        raise AlignmentError(
            f"{path} was counted with a vocabulary of {table.vocab_size}, and the target has {vocab_size}.",
            remedy="Use a table that was counted on this target's answers.",
        )
    lengths = [order.length for order in table.orders]
    if lengths != sorted(set(lengths)) or not all(1 <= length <= MAX_ORDER for length in lengths):
        raise ModelError(f"{path} has contexts of {lengths} tokens.", remedy=_REMEDY)
    for order in table.orders:
        problem = _problem(order, table.vocab_size)
        if problem:
            raise ModelError(f"{path} is damaged: {problem} of order {order.length}.", remedy=_REMEDY)


def _problem(order: Order, vocab_size: int) -> str | None:
    num_contexts, num_entries = len(order.marks), len(order.tokens)
    num_buckets = len(order.heads) - 1
    if num_buckets < 2 or num_buckets & (num_buckets - 1) or num_buckets > 2**31:
        return f"{num_buckets} buckets"
    if len(order.totals) != num_contexts or len(order.begins) != num_contexts + 1 or len(order.counts) != num_entries:
        return "arrays of different lengths"
    if not _is_rising(order.heads, num_contexts) or not _is_rising(order.begins, num_entries):
        return "places out of order"
    if num_contexts and (
        int(np.diff(order.begins.astype(np.int64)).max()) > MAX_ENTRIES or int(order.totals.min()) < 1
    ):
        return "counts that cannot be"
    if num_entries and (int(order.tokens.max()) >= vocab_size or int(order.counts.min()) < 1):
        return "tokens outside the vocabulary"
    return None


def _is_rising(places: np.ndarray[Any, Any], end: int) -> bool:
    """Whether places run from 0 to end and never fall."""
    return bool(places[0] == 0 and places[-1] == end and (places[1:] >= places[:-1]).all())
