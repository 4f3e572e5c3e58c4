"""The records of native/include, field by field."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char, c_double, c_float, c_int32, c_int64, c_uint64, c_void_p
from typing import ClassVar

VERSION = 4

Fields = list[tuple[str, type]]
Signatures = dict[str, tuple[type | None, list[type]]]  # functions by name: what they return, then what they take


class ErrorStruct(Structure):
    """paradraft_error."""

    _fields_: ClassVar[Fields] = [("message", c_char * 256)]


class MatrixStruct(Structure):
    """paradraft_matrix."""

    _fields_: ClassVar[Fields] = [
        ("data", c_void_p),
        ("bias", c_void_p),
        ("outputs", c_int64),
        ("inputs", c_int64),
        ("kind", c_int32),
        ("reserved", c_int32),
    ]


class LayerStruct(Structure):
    """paradraft_layer."""

    _fields_: ClassVar[Fields] = [
        *((name, MatrixStruct) for name in ("query_key_value", "output", "gate", "up", "down")),
        *((name, c_void_p) for name in ("input_norm", "inner_norm", "query_norm", "key_norm", "side_norm")),
        *((name, c_int32) for name in ("window", "has_rope", "goes_on_normed", "reserved")),
    ]


class ModelStruct(Structure):
    """paradraft_model."""

    _fields_: ClassVar[Fields] = [
        *((name, c_int64) for name in ("vocab_size", "hidden_size", "intermediate_size")),
        *((name, c_int64) for name in ("num_layers", "num_heads", "num_key_heads", "head_dim")),
        ("norm_eps", c_float),
        ("rope_factor", c_float),
        ("inverse_frequencies", c_void_p),
        ("layers", POINTER(LayerStruct)),
        ("final_norm", c_void_p),
        ("head", MatrixStruct),
        ("embedding", c_void_p),
        ("embedding_kind", c_int32),
        ("reserved", c_int32),
        ("taps", MatrixStruct),
        ("taps_norm", c_void_p),
    ]


class OptionsStruct(Structure):
    """paradraft_options."""

    _fields_: ClassVar[Fields] = [
        ("num_slots", c_int64),
        *((name, c_int32) for name in ("cache_kind", "num_threads", "instruction_set", "reserved")),
        ("shares", c_void_p),
    ]


class PassStruct(Structure):
    """paradraft_pass."""

    _fields_: ClassVar[Fields] = [
        *((name, c_int64) for name in ("num_rows", "num_tokens", "num_scored")),
        *((name, c_void_p) for name in ("row_starts", "tokens", "positions", "slots", "parents")),
        *((name, c_void_p) for name in ("context_starts", "context_slots", "scored")),
        ("num_hidden_layers", c_int64),
        ("hidden_layers", c_void_p),
        ("num_entropy_layers", c_int64),
        ("entropy_layers", c_void_p),
        *((name, c_void_p) for name in ("states", "sides")),
        ("num_tapped", c_int64),
        *((name, c_void_p) for name in ("tapped", "taps", "temperatures")),
        ("num_candidates", c_int64),
        *((name, c_int32) for name in ("sees_both_ways", "reserved")),
    ]


class ResultsStruct(Structure):
    """paradraft_results."""

    _fields_: ClassVar[Fields] = [
        *((name, c_void_p) for name in ("logits", "hidden", "entropy", "normed")),
        *((name, c_void_p) for name in ("candidates", "candidate_logits", "log_totals")),
    ]


class EntriesStruct(Structure):
    """paradraft_entries."""

    _fields_: ClassVar[Fields] = [
        ("num_entries", c_int64),
        *((name, c_void_p) for name in ("taps", "positions", "slots")),
    ]


class SamplingStruct(Structure):
    """paradraft_sampling."""

    _fields_: ClassVar[Fields] = [
        *((name, c_double) for name in ("temperature", "top_p", "min_p")),
        ("top_k", c_int64),
        *((name, c_uint64) for name in ("seed", "choice")),
    ]


SIGNATURES: Signatures = {
    "paradraft_version": (c_int32, []),
    "paradraft_has": (c_int32, [c_int32]),
    "paradraft_packed_bytes": (c_int64, [c_int32, c_int64, c_int64]),
    "paradraft_pack": (
        c_int32,
        [c_int32, c_int64, c_int64, c_int64, c_int64, c_void_p, c_int32, c_void_p, POINTER(ErrorStruct)],
    ),
    "paradraft_unpack_row": (c_int32, [POINTER(MatrixStruct), c_int64, c_void_p, POINTER(ErrorStruct)]),
    "paradraft_engine_create": (
        c_int32,
        [POINTER(ModelStruct), POINTER(OptionsStruct), POINTER(c_void_p), POINTER(ErrorStruct)],
    ),
    "paradraft_engine_destroy": (None, [c_void_p]),
    "paradraft_engine_instruction_set": (c_int32, [c_void_p]),
    "paradraft_engine_cache_bytes": (c_int64, [c_void_p]),
    "paradraft_engine_run": (
        c_int32,
        [c_void_p, POINTER(PassStruct), POINTER(ResultsStruct), POINTER(ErrorStruct)],
    ),
    "paradraft_engine_append": (c_int32, [c_void_p, POINTER(EntriesStruct), POINTER(ErrorStruct)]),
    "paradraft_engine_move": (c_int32, [c_void_p, c_void_p, c_void_p, c_int64, POINTER(ErrorStruct)]),
    "paradraft_multiply": (
        c_int32,
        [POINTER(MatrixStruct), c_int64, c_void_p, c_void_p, c_int32, POINTER(ErrorStruct)],
    ),
    "paradraft_engine_best": (c_int32, [c_void_p, c_int64, c_void_p, POINTER(ErrorStruct)]),
    "paradraft_choose": (
        c_int32,
        [c_void_p, c_int64, POINTER(SamplingStruct), c_uint64, c_int32, POINTER(c_int32), POINTER(ErrorStruct)],
    ),
    "paradraft_largest": (
        c_int32,
        [c_void_p, c_int64, c_int64, c_int32, c_void_p, c_void_p, POINTER(c_int32), POINTER(ErrorStruct)],
    ),
}


def declare(library: ctypes.CDLL, signatures: Signatures) -> None:
    """Give functions of a loaded library their types; raises AttributeError for one that is missing."""
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
