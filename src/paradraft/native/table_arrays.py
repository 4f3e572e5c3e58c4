"""The arrays of a table as the library reads them."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from paradraft.core.errors import ProtocolError
from paradraft.native.addresses import address
from paradraft.native.guesser_structs import TableOrderStruct

Arrays = dict[str, npt.NDArray[Any]]


class ContextsOfOneLength(Protocol):
    """What a table knows of the contexts of one length; drafters/table/layout.py describes the arrays."""

    @property
    def length(self) -> int:
        """Return the tokens of a context."""
        ...

    @property
    def discounts(self) -> tuple[float, float, float]:
        """Return what is taken off counts of 1, 2 and more."""
        ...

    def arrays(self) -> Arrays:
        """Return heads, marks, totals, begins, tokens and counts by name."""
        ...


def contiguous(order: ContextsOfOneLength) -> tuple[TableOrderStruct, Arrays]:
    """Return an order's record, and the arrays that must live as long as it is read.

    Raises ProtocolError for arrays whose lengths do not fit; what they hold, the library checks.
    """
    given = order.arrays()
    is_wide = given["tokens"].dtype.itemsize > np.dtype(np.uint16).itemsize
    kinds = {
        "heads": np.uint32,
        "marks": np.uint32,
        "totals": np.uint16,
        "begins": np.uint32,
        "tokens": np.uint32 if is_wide else np.uint16,
        "counts": np.uint16,
    }
    arrays: Arrays = {name: np.ascontiguousarray(given[name], dtype=kind) for name, kind in kinds.items()}
    num_contexts, num_entries = len(arrays["marks"]), len(arrays["tokens"])
    for name, size in {"totals": num_contexts, "begins": num_contexts + 1, "counts": num_entries}.items():
        if len(arrays[name]) != size:
            raise ProtocolError(
                f"A table has {len(arrays[name])} {name} where {size} belong.", remedy="Build the table again."
            )
    struct = TableOrderStruct(
        order.length,
        len(arrays["heads"]) - 1,
        num_contexts,
        num_entries,
        (ctypes.c_double * 3)(*order.discounts),
        *[address(array) for array in arrays.values()],
        int(is_wide),
        0,
    )
    return struct, arrays
