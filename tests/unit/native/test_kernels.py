"""Products of packed matrices against float64, on every instruction set, at sizes that fill no register."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from paradraft.core.arrays import DoubleArray, FloatArray
from paradraft.core.errors import ConfigError
from paradraft.native.packing import PackedMatrix, multiply, pack
from support.native import needs_native
from support.native_mixing import in_groups, mixed
from support.native_passes import INSTRUCTION_SETS, KINDS

pytestmark = needs_native
SHAPES = [(1, 1), (16, 2), (17, 3), (33, 48), (48, 127), (100, 129), (64, 576), (35, 1537)]
TOKENS = (1, 2, 3, 4, 5, 12, 14, 15, 16, 17, 31, 100)
# How groups of inputs that share a scale look when they are rounded.
GROUPS = {"int8": mixed, "int4": in_groups}


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
    seen, weights = (GROUPS.get(kind, in_groups)(lines) for lines in (inputs, rows))
    total = np.abs(weights).sum(axis=2)
    sums = 1e-5 * np.einsum("tgi,ogi->to", np.abs(seen), np.abs(weights)) + 1e-6
    if kind not in GROUPS:
        return sums
    steps = np.abs(seen).max(axis=2) / 127
    allowed: DoubleArray = sums + 0.501 * steps @ total.T
    return allowed


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
    """The most that a group holds: in int4 15 beside a least of 0; mixed, a single input is 32 of the same size."""
    weights, given = np.full((16, 1024), 2.0, dtype=np.float32), np.ones((3, 1024), dtype=np.float32)
    weights[:, ::32] = 0.0
    if kind == "int8":
        weights, given = 2.0 - weights, np.tile(np.eye(1, 32, dtype=np.float32), (3, 32))
    packed = pack(kind, [weights])
    expected = packed.row(0).astype(np.float64) @ given[0]
    assert abs(expected) >= 32
    for sign in (1.0, -1.0):
        found = multiply(packed, np.float32(sign) * given, instruction_set=instruction_set)
        np.testing.assert_allclose(found, sign * expected, rtol=1e-5)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
def test_a_massive_activation_does_not_take_the_scale_from_its_group(instruction_set: str):
    packed, rows = matrix("int8", 64, 320)
    given = lines(20, 320)
    found = multiply(packed, given, instruction_set=instruction_set) - packed.bias
    groups = in_groups(given)
    steps = np.abs(groups).max(axis=2, keepdims=True) / 127
    unmixed = (np.rint(groups / steps) * steps).reshape(given.shape)
    exact = given.astype(np.float64) @ rows.T
    assert ((found - exact) ** 2).mean() < 0.1 * ((unmixed @ rows.T - exact) ** 2).mean()


def test_an_instruction_set_that_is_not_there_is_refused_by_name():
    packed, _ = matrix("float32", 16, 16)
    with pytest.raises(ConfigError, match="mmx"):
        multiply(packed, lines(1, 16), instruction_set="mmx")
