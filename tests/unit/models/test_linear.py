from __future__ import annotations

import pytest
import torch
import torch.nn.functional as functional

from paradraft.models import linear
from paradraft.models.linear import (
    FusedGatedPair,
    JoinedGatedPair,
    Kernels,
    PlainLinear,
    ReorderedLinear,
    choose_kernels,
)

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tokens", [1, 3, 16, 70])
@pytest.mark.parametrize("shape", [(40, 24), (24, 40), (24, 24)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_reordered_weights_compute_what_plain_ones_do(dtype, tokens, shape, has_bias):
    torch.manual_seed(0)
    weight = torch.randn(shape).to(dtype)
    bias = torch.randn(shape[0]).to(dtype) if has_bias else None
    inputs, residual = torch.randn(tokens, shape[1]).to(dtype), torch.randn(tokens, shape[0]).to(dtype)
    plain, chosen = PlainLinear(weight, bias), choose_kernels(dtype, CPU).layer(weight, bias)
    tolerance = {"rtol": 2e-2, "atol": 2e-1} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-4}
    before = residual.clone()
    torch.testing.assert_close(chosen(inputs), functional.linear(inputs, weight, bias), **tolerance)
    torch.testing.assert_close(chosen.add_to(residual, inputs), plain.add_to(residual, inputs), **tolerance)
    torch.testing.assert_close(plain.add_to(residual, inputs), residual + plain(inputs), **tolerance)
    assert torch.equal(residual, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_gated_pair_multiplies_up_by_the_silu_of_gate(dtype, has_bias):
    torch.manual_seed(0)
    gate, up = ((torch.randn(20, 12).to(dtype), torch.randn(20).to(dtype) if has_bias else None) for _ in range(2))
    inputs = torch.randn(5, 12).to(dtype)
    expected = functional.silu(
        functional.linear(inputs.double(), gate[0].double(), None if gate[1] is None else gate[1].double())
    )
    expected = expected * functional.linear(inputs.double(), up[0].double(), None if up[1] is None else up[1].double())
    ours = choose_kernels(dtype, CPU).gated(gate, up)(inputs)
    torch.testing.assert_close(
        ours.double(),
        expected,
        rtol=3e-2 if dtype == torch.bfloat16 else 1e-5,
        atol=0.1 if dtype == torch.bfloat16 else 1e-5,
    )


def test_weights_are_reordered_where_that_was_measured_to_pay():
    wide, narrow = torch.randn(40, 24), torch.randn(24, 40)
    kernels = choose_kernels(torch.float32, CPU)
    if kernels.reorder is None:
        pytest.skip(kernels.note)
    assert isinstance(kernels.layer(wide, None), ReorderedLinear)
    assert isinstance(kernels.layer(narrow, None), PlainLinear)
    half = choose_kernels(torch.bfloat16, CPU)
    if half.reorder is None:
        pytest.skip(half.note)
    assert isinstance(half.layer(narrow.bfloat16(), None), ReorderedLinear)
    assert isinstance(half.gated((wide.bfloat16(), None), (wide.bfloat16(), None)), FusedGatedPair)
    assert isinstance(kernels.gated((wide, None), (wide, None)), JoinedGatedPair)


@pytest.mark.parametrize("error", [AttributeError("no operator of that name"), RuntimeError("not built in\nmore")])
def test_a_build_without_the_operators_runs_plain_layers_and_says_why(monkeypatch, error):
    def missing(*_: object) -> torch.Tensor:
        raise error

    monkeypatch.setattr(linear, "_reorder", missing)
    kernels = choose_kernels(torch.bfloat16, CPU)
    assert kernels.reorder is None
    assert str(error).splitlines()[0] in kernels.note
    assert "more" not in kernels.note
    assert isinstance(kernels.layer(torch.randn(4, 2), None), PlainLinear)
    assert isinstance(kernels.gated((torch.randn(4, 2), None), (torch.randn(4, 2), None)), JoinedGatedPair)


def test_operators_that_compute_something_else_are_not_used(monkeypatch):
    monkeypatch.setattr(linear, "_reorder", lambda weight, _: torch.ops.mkldnn._reorder_linear_weight(weight * 2, None))
    assert "differ" in choose_kernels(torch.float32, CPU).note


def test_formats_without_a_reordered_kernel_are_named():
    assert "float64" in choose_kernels(torch.float64, CPU).note
    assert Kernels(reorder=None, note="x").layer(torch.randn(4, 2), None)(torch.randn(3, 2)).shape == (3, 4)
