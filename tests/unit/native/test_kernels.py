"""Products of packed matrices against float64, on every instruction set, at sizes that fill no register."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from paradraft.core.arrays import DoubleArray, FloatArray
from paradraft.core.errors import ConfigError
from paradraft.native.packing import PackedMatrix, multiply, pack
from support.native import needs_native
from support.native_passes import INSTRUCTION_SETS, KINDS

pytestmark = needs_native
SHAPES = [(1, 1), (16, 2), (17, 3), (33, 48), (48, 127), (100, 129), (64, 576), (35, 1537)]
TOKENS = (1, 2, 3, 4, 5, 12, 14, 15, 16, 17, 31, 100)
GROUPS = {"int8": 64, "int4": 32}  # inputs that share a scale of activations


def matrix(kind: str, outputs: int, inputs: int, seed: int = 0) -> tuple[PackedMatrix, DoubleArray]:
    """A random matrix with a bias, and its rows as the kernels see them."""
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((outputs, inputs)).astype(np.float32)
    packed = pack(kind, [values], bias=generator.standard_normal(outputs).astype(np.float32))
    return packed, np.array([packed.row(row) for row in range(outputs)], dtype=np.float64)


def lines(tokens: int, inputs: int) -> FloatArray:
    """Random activations, some of them massive."""
    generator = np.random.default_rng(tokens)
    values = generator.standard_normal((tokens, inputs)).astype(np.float32)
    values[:, inputs // 2] *= 300
    return values


def rounded_to_bf16(values: FloatArray) -> FloatArray:
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def allowed_error(kind: str, inputs: FloatArray, rows: DoubleArray) -> DoubleArray:
    """What a product may differ from float64 by, [T, O]: fp32 sums, and half a step of each activation."""
    sums = 1e-5 * np.abs(inputs).astype(np.float64) @ np.abs(rows).T + 1e-6
    if kind not in GROUPS:
        return sums
    group = GROUPS[kind]
    steps = np.zeros(inputs.shape)
    for first in range(0, inputs.shape[1], group):
        part = np.abs(inputs[:, first : first + group])
        steps[:, first : first + group] = part.max(axis=1, keepdims=True) / 127
    return sums + 0.501 * steps @ np.abs(rows).T


@pytest.mark.parametrize(("outputs", "inputs"), SHAPES)
@pytest.mark.parametrize(("instruction_set", "kind"), list(product(INSTRUCTION_SETS, KINDS)))
def test_products_are_those_of_float64(instruction_set: str, kind: str, outputs: int, inputs: int):
    packed, rows = matrix(kind, outputs, inputs)
    assert packed.bias is not None
    for tokens in TOKENS:
        given = lines(tokens, inputs)
        found = multiply(packed, given, instruction_set=instruction_set)
        seen = rounded_to_bf16(given) if kind == "bfloat16" else given
        exact = seen.astype(np.float64) @ rows.T + packed.bias
        assert (np.abs(found - exact) <= allowed_error(kind, seen, rows)).all()


@pytest.mark.parametrize(("instruction_set", "kind"), list(product(INSTRUCTION_SETS, KINDS)))
def test_a_token_has_the_same_product_in_every_company(instruction_set: str, kind: str):
    packed, _ = matrix(kind, 100, 161)
    given = lines(100, 161)
    alone = np.concatenate([multiply(packed, line[None], instruction_set=instruction_set) for line in given])
    for tokens in TOKENS:
        together = multiply(packed, given[-tokens:], instruction_set=instruction_set)
        assert np.array_equal(together.view(np.uint32), alone[-tokens:].view(np.uint32))


@pytest.mark.parametrize("kind", ["float32", "int8", "int4"])
def test_instruction_sets_with_fused_sums_agree_to_the_bit(kind: str):
    """bf16 products are fused in pairs by AVX512 only; the others are the same sums everywhere."""
    if "avx512" not in INSTRUCTION_SETS:
        pytest.skip("this machine has one such instruction set")
    packed, _ = matrix(kind, 100, 161)
    given = lines(9, 161)
    narrow, wide = (multiply(packed, given, instruction_set=name) for name in ("avx2", "avx512"))
    assert np.array_equal(narrow.view(np.uint32), wide.view(np.uint32))


@pytest.mark.parametrize(("instruction_set", "kind"), list(product(INSTRUCTION_SETS, GROUPS)))
def test_the_largest_whole_sums_do_not_saturate(instruction_set: str, kind: str):
    values = np.full((16, 1024), 2.0, dtype=np.float32)
    values[:, ::32] = 0.0 if kind == "int4" else 2.0  # so that the others are the most that a group holds
    packed = pack(kind, [values])
    expected = sum(packed.row(0).tolist())
    for sign in (1.0, -1.0):
        found = multiply(packed, np.full((3, 1024), sign, dtype=np.float32), instruction_set=instruction_set)
        np.testing.assert_allclose(found, sign * expected, rtol=1e-5)


def test_an_instruction_set_that_is_not_there_is_refused_by_name():
    packed, _ = matrix("float32", 16, 16)
    with pytest.raises(ConfigError, match="mmx"):
        multiply(packed, lines(1, 16), instruction_set="mmx")
