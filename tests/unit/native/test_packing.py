"""Packed matrices give back what was packed, from every source, in pieces, and into memory of the caller's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paradraft.core.errors import ModelError, ParadraftError, ProtocolError
from paradraft.native.packing import ALIGNMENT, aligned_bytes, multiply, pack, packed_bytes
from support.native import needs_native
from support.native_mixing import GROUP, in_groups, mixed

pytestmark = needs_native


def values(outputs: int, inputs: int) -> np.ndarray:
    return np.random.default_rng(outputs).standard_normal((outputs, inputs)).astype(np.float32)


def bf16_bits(matrix: np.ndarray) -> np.ndarray:
    """The bits of values that bfloat16 holds exactly."""
    return (matrix.view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("shape", [(1, 1), (16, 4), (17, 5), (50, 131)])
def test_rows_come_back(shape: tuple[int, int]):
    matrix = values(*shape)
    short = (matrix.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    for kind, given in (("float32", matrix), ("bfloat16", short)):
        packed = pack(kind, [given])
        assert packed.data.nbytes == packed_bytes(kind, *shape)
        assert all(np.array_equal(packed.row(row), given[row]) for row in range(shape[0]))


@pytest.mark.parametrize("shape", [(1, 1), (17, 5), (50, 131), (16, 64), (20, 300)])
@pytest.mark.parametrize("size", [1e-20, 1.0, 1e30])
def test_int8_groups_are_within_half_a_step_of_each_mixed_weight(shape: tuple[int, int], size: float):
    """Mixing keeps lengths, so errors of mixed weights are measured on the weights that come back."""
    matrix = values(*shape) * np.float32(size)
    matrix[0] = 0
    packed = pack("int8", [matrix])
    assert packed.data.nbytes == packed_bytes("int8", *shape)
    rows = np.array([packed.row(row) for row in range(shape[0])])
    assert not rows[0].any()
    reach = np.abs(mixed(matrix)).max(axis=2)
    steps = reach / 127 + reach.max(axis=1, keepdims=True) / 127 / 255  # rounded up to a unit of the row
    errors = in_groups(rows.astype(np.float64) - matrix)
    assert (np.sqrt((errors**2).sum(axis=2)) <= 0.5001 * steps * np.sqrt(GROUP)).all()


def test_int8_scales_lose_less_than_those_that_just_reach_the_largest_weight():
    matrix = values(64, 320)
    packed = pack("int8", [matrix])
    errors = np.array([packed.row(row) for row in range(64)]) - matrix
    groups = mixed(matrix)
    steps = np.abs(groups).max(axis=2, keepdims=True) / 127
    assert (errors**2).mean() < 0.9 * ((np.rint(groups / steps) * steps - groups) ** 2).mean()


def test_scales_of_int8_take_a_byte_per_group_and_four_per_output():
    assert packed_bytes("int8", 16, 1536) == 16 * (1536 + 4 + 1536 // 32)


@pytest.mark.parametrize("shape", [(1, 1), (17, 5), (50, 131), (16, 64), (3, 33)])
def test_int4_rows_are_within_half_a_step_of_their_group(shape: tuple[int, int]):
    matrix = values(*shape) + 0.5
    matrix[0] = -0.75  # all alike
    packed = pack("int4", [matrix])
    assert packed.data.nbytes == packed_bytes("int4", *shape)
    assert np.array_equal(packed.row(0), matrix[0])
    for row, given in enumerate(matrix):
        for first in range(0, shape[1], 32):
            group = given[first : first + 32]
            allowed = 0.5 * np.ptp(group) / 15 + 2.0**-10 * np.abs(group).max()  # half a step; the ends rounded to f16
            assert (np.abs(packed.row(row)[first : first + 32] - group) <= allowed).all()


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**-14, 0.0078125, 0.75, 300.0])
def test_int4_holds_sixteen_even_steps_exactly(scale: float):
    """As the four-bit blocks of GGUF files with a least value have them, tiny ones included."""
    levels = np.random.default_rng(0).permutation(np.arange(32) % 16)
    matrix = np.array([scale * (levels - 5)], dtype=np.float32)
    assert np.array_equal(pack("int4", [matrix]).row(0), matrix[0])


def test_rounding_to_bfloat16_takes_ties_to_even():
    ties = np.array([[1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 1 + 2**-8 + 2**-20]], dtype=np.float32)
    assert pack("bfloat16", [ties]).row(0).tolist() == [1.0, 1 + 2**-6, -1.0, 1 + 2**-7]


def test_sources_of_every_kind_pack_alike():
    matrix = np.array([[1.5, -0.25, 0.0, 65504.0, 2.0**-14, 2.0**-24]], dtype=np.float32)
    half, short = matrix.astype(np.float16), np.array([[0.5, -3.0]], dtype=np.float32)
    assert np.array_equal(pack("float32", [half]).row(0), matrix[0])
    assert np.array_equal(pack("float32", [bf16_bits(short)]).row(0), short[0])


def test_joined_parts_equal_one_matrix():
    """Parts of whole panels are packed piece by piece, others joined first."""
    for cuts in ([16, 48], [5, 30]):
        matrix = values(70, 9)
        joined, whole = pack("int8", np.split(matrix, cuts)), pack("int8", [matrix])
        assert np.array_equal(joined.data, whole.data)


def test_packing_into_a_mapped_file(tmp_path: Path):
    matrix = values(40, 33)
    size = packed_bytes("bfloat16", 40, 33)
    mapped = np.memmap(tmp_path / "packed", dtype=np.uint8, mode="w+", shape=(size,))
    pack("bfloat16", [matrix], into=mapped)
    mapped.flush()
    again = np.memmap(tmp_path / "packed", dtype=np.uint8, mode="r", shape=(size,))
    assert np.array_equal(again, pack("bfloat16", [matrix]).data)


def test_memory_that_does_not_fit_is_refused():
    size = packed_bytes("float32", 16, 4)
    with pytest.raises(ModelError, match=str(size)):
        pack("float32", [values(16, 4)], into=aligned_bytes(size + 64))
    with pytest.raises(ModelError, match=f"multiple of {ALIGNMENT}"):
        pack("float32", [values(16, 4)], into=aligned_bytes(size + 4)[4:])


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8", "int4"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_by_row(kind: str, bad: float):
    matrix = values(20, 6)
    matrix[17, 3] = bad
    with pytest.raises(ProtocolError, match="Row 17"):
        pack(kind, [matrix])


def test_what_the_least_values_of_int4_cannot_hold_is_refused():
    assert np.isfinite(pack("int4", [np.array([[65504.0, -65504.0]], dtype=np.float32)]).row(0)).all()
    with pytest.raises(ProtocolError, match="not finite"):
        pack("int4", [np.array([[-65536.0, 0.0]], dtype=np.float32)])


def test_what_bfloat16_would_round_to_infinity_is_refused():
    matrix = np.full((1, 1), np.finfo(np.float32).max, dtype=np.float32)
    assert np.isfinite(pack("float32", [matrix]).row(0)).all()
    with pytest.raises(ProtocolError, match="not finite"):
        pack("bfloat16", [matrix])


@pytest.mark.parametrize(
    ("kind", "parts", "named"),
    [
        ("int3", [values(16, 4)], "int3"),
        ("float32", [values(16, 4), values(16, 5)], "beside 4 inputs"),
        ("float32", [values(16, 4).astype(np.float64)], "float64"),
        ("float32", [values(16, 4)[:0]], "0 x 4"),
    ],
)
def test_what_cannot_be_packed_is_named(kind: str, parts: list[np.ndarray], named: str):
    with pytest.raises(ParadraftError, match=named):
        pack(kind, parts)


def test_rows_outside_a_matrix_are_refused():
    packed = pack("float32", [values(17, 4)])
    for row in (-1, 17):
        with pytest.raises(ProtocolError, match=str(row)):
            packed.row(row)


def test_no_tokens_give_no_products():
    assert multiply(pack("float32", [values(17, 4)]), np.empty((0, 4), dtype=np.float32)).shape == (0, 17)
