"""The records and functions of native/include/paradraft_guessing.h."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import ClassVar

from paradraft.native.structs import ErrorStruct, Fields, Signatures

MOST_SHARES = 16
SOURCE_WEIGHTS, OTHER_WEIGHTS = 6, 5  # of each source, and of a blend besides


class TableOrderStruct(Structure):
    """paradraft_table_order."""

    _fields_: ClassVar[Fields] = [
        *((name, c_int64) for name in ("length", "num_buckets", "num_contexts", "num_entries")),
        ("discounts", c_double * 3),
        *((name, c_void_p) for name in ("heads", "marks", "totals", "begins", "tokens", "counts")),
        *((name, c_int32) for name in ("is_wide", "reserved")),
    ]


class GuesserOptionsStruct(Structure):
    """paradraft_guesser_options."""

    _fields_: ClassVar[Fields] = [
        *((name, c_int64) for name in ("vocab_size", "num_sources")),
        *((name, c_void_p) for name in ("sources", "weights")),
        *((name, c_int64) for name in ("width", "shared_tokens", "row_tokens", "counted_tokens", "learned_contexts")),
        ("num_orders", c_int64),
        ("orders", POINTER(TableOrderStruct)),
        ("num_frequent", c_int64),
        *((name, c_void_p) for name in ("frequent", "frequent_log_shares")),
    ]


class GuesserRowStruct(Structure):
    """paradraft_guesser_row."""

    _fields_: ClassVar[Fields] = [
        ("tenant", c_char_p),
        *((name, c_int64) for name in ("tenant_bytes", "answer_from")),
        *((name, c_uint64) for name in ("seed", "choice")),
        *((name, c_int32) for name in ("is_warm", "has_noise")),
    ]


class DraftsStruct(Structure):
    """paradraft_drafts."""

    _fields_: ClassVar[Fields] = [
        ("capacity", c_int64),
        *((name, c_void_p) for name in ("starts", "tokens", "parents", "depths", "sources", "confidence", "expected")),
    ]


class PriceStruct(Structure):
    """paradraft_price."""

    _fields_: ClassVar[Fields] = [("node", c_double), ("draft", c_double)]


_ERROR, _PRICE, _DRAFTS = POINTER(ErrorStruct), POINTER(PriceStruct), POINTER(DraftsStruct)

GUESSER_SIGNATURES: Signatures = {
    "paradraft_guesser_create": (c_int32, [POINTER(GuesserOptionsStruct), POINTER(c_void_p), _ERROR]),
    "paradraft_guesser_destroy": (None, [c_void_p]),
    "paradraft_guesser_weights": (c_int32, [c_void_p, c_int32, c_void_p, _ERROR]),
    "paradraft_guesser_begin": (c_int32, [c_void_p, POINTER(GuesserRowStruct), POINTER(c_int64), _ERROR]),
    "paradraft_guesser_end": (c_int32, [c_void_p, c_int64, c_void_p, c_int64, _ERROR]),
    "paradraft_guesser_propose": (c_int32, [c_void_p, c_void_p, c_int64, _PRICE, _DRAFTS, _ERROR]),
    "paradraft_guesser_grow": (c_int32, [c_void_p, c_int64, c_int64, c_int64, c_int64, _PRICE, _DRAFTS, _ERROR]),
    "paradraft_guesser_observe": (c_int32, [c_void_p, c_void_p, c_int64, c_void_p, c_void_p, _ERROR]),
    "paradraft_guesser_has": (c_int32, [c_void_p, c_int64, POINTER(c_int32), _ERROR]),
    "paradraft_guesser_shares": (
        c_int32,
        [c_void_p, c_int64, c_int64, c_void_p, c_void_p, POINTER(c_int64), _ERROR],
    ),
    "paradraft_guesser_descend": (c_int32, [c_void_p, c_int64, c_int64, c_int32, POINTER(c_int64), _ERROR]),
    "paradraft_guesser_source_of": (c_int32, [c_void_p, c_int64, c_int64, c_int32, POINTER(c_uint32), _ERROR]),
}


def handle_of(handle: ctypes.c_void_p) -> int:
    """Return the address that a call has written to a handle."""
    assert handle.value is not None
    return handle.value
