"""Linear layers with weights laid out for the machine.

On a CPU, oneDNN multiplies faster by weights it may reorder once: measured on SmolLM2-135M, one thread, all linear
layers of a pass in bf16 take 17 ms instead of 26 (1 token), 18 instead of 28 (8 tokens) and 55 instead of 74 (256).
In fp32 that holds for layers that widen (8 tokens: 27 ms instead of 49 for gate and up) and not for the others.
The operators are private to torch, so a build without them falls back to the plain layers and says so.
Legend: T tokens, I inputs, O outputs, F feed-forward size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as functional
from torch import Tensor


class Linear(Protocol):
    """A linear layer."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return inputs [T, I] times the weight plus the bias, [T, O]."""
        ...

    def add_to(self, residual: Tensor, inputs: Tensor) -> Tensor:
        """Return residual [T, O] plus the layer's outputs; residual stays as it is."""
        ...


class GatedPair(Protocol):
    """The two layers of a gated feed-forward that read the same inputs."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return silu(gate(inputs)) * up(inputs) of inputs [T, I], [T, F]."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernels:
    """How linear layers of one model are run, and why not faster if so."""

    reorder: Callable[[Tensor, int | None], Tensor] | None  # weight, and the number of tokens to suit
    note: str

    def layer(self, weight: Tensor, bias: Tensor | None) -> Linear:
        """Return the layer for weight [O, I] and bias [O]."""
        widens = weight.shape[0] > weight.shape[1]
        if self.reorder is None or (weight.dtype == torch.float32 and not widens):
            return PlainLinear(weight, bias)
        return ReorderedLinear(self.reorder(weight, _suited_to(weight)), bias)

    def gated(self, gate: tuple[Tensor, Tensor | None], up: tuple[Tensor, Tensor | None]) -> GatedPair:
        """Return the pair for the weights [F, I] and biases [F] of gate and up."""
        if self.reorder is not None and gate[0].dtype == torch.bfloat16:
            suited = _suited_to(gate[0])
            return FusedGatedPair((self.reorder(gate[0], suited), gate[1]), (self.reorder(up[0], suited), up[1]))
        bias = None if gate[1] is None or up[1] is None else torch.cat([gate[1], up[1]])
        return JoinedGatedPair(self.layer(torch.cat([gate[0], up[0]]), bias))


class PlainLinear:
    """A layer that torch runs as it finds it."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = weight
        self._bias = bias

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return inputs [T, I] times the weight plus the bias, [T, O]."""
        return functional.linear(inputs, self._weight, self._bias)

    def add_to(self, residual: Tensor, inputs: Tensor) -> Tensor:
        """Return residual [T, O] plus the layer's outputs."""
        return functional.linear(inputs, self._weight, self._bias).add_(residual)


class ReorderedLinear:
    """A layer whose weight only oneDNN can read; adding to a residual is part of the multiplication."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = weight
        self._bias = bias
        self._multiply = torch.ops.mkldnn._linear_pointwise.default  # noqa: SLF001  # no public name
        self._multiply_add = torch.ops.mkldnn._linear_pointwise.binary  # noqa: SLF001  # no public name

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return inputs [T, I] times the weight plus the bias, [T, O]."""
        outputs: Tensor = self._multiply(inputs, self._weight, self._bias, "none", [], "")
        return outputs

    def add_to(self, residual: Tensor, inputs: Tensor) -> Tensor:
        """Return residual [T, O] plus the layer's outputs."""
        outputs: Tensor = self._multiply_add(inputs, residual, self._weight, self._bias, "add")
        return outputs


class JoinedGatedPair:
    """Both layers in one multiplication, then silu and product."""

    def __init__(self, joined: Linear) -> None:
        self._joined = joined

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return silu(gate(inputs)) * up(inputs), [T, F]."""
        gate, up = self._joined(inputs).chunk(2, dim=-1)
        return functional.silu(gate).mul_(up)


class FusedGatedPair:
    """Two multiplications that apply silu and product as they write: in bf16 a quarter faster for 256 tokens."""

    def __init__(self, gate: tuple[Tensor, Tensor | None], up: tuple[Tensor, Tensor | None]) -> None:
        self._gate, self._gate_bias = gate
        self._up, self._up_bias = up
        self._multiply = torch.ops.mkldnn._linear_pointwise.default  # noqa: SLF001  # no public name
        self._multiply_by = torch.ops.mkldnn._linear_pointwise.binary  # noqa: SLF001  # no public name

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return silu(gate(inputs)) * up(inputs), [T, F]."""
        gate = self._multiply(inputs, self._gate, self._gate_bias, "swish", [], "")
        outputs: Tensor = self._multiply_by(inputs, gate, self._up, self._up_bias, "mul")
        return outputs


def choose_kernels(dtype: torch.dtype, device: torch.device) -> Kernels:
    """Return the fastest way this build of torch offers, after trying it out."""
    if device.type != "cpu":
        return Kernels(reorder=None, note=f"linear layers by torch on {device.type}")
    if dtype not in (torch.float32, torch.bfloat16):
        return Kernels(reorder=None, note=f"linear layers by torch; weights in {dtype} are not reordered")
    try:
        _try_out(dtype)
    except (AttributeError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        return Kernels(reorder=None, note=f"linear layers by torch; reordering is not available here: {reason}")
    return Kernels(reorder=_reorder, note="linear layers by oneDNN with reordered weights")


def _suited_to(weight: Tensor) -> int | None:
    """Return the number of tokens to lay a weight out for, None for oneDNN's choice.

    Laid out for one token, bf16 layers take a tenth less time up to 32 tokens and up to a tenth more for some
    hundreds; layers that narrow would take a third more there. fp32 would not be reordered at all.
    """
    return 1 if weight.dtype == torch.bfloat16 and weight.shape[0] >= weight.shape[1] else None


def _reorder(weight: Tensor, num_tokens: int | None) -> Tensor:
    reordered: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, num_tokens)  # noqa: SLF001  # no public name
    return reordered


def _try_out(dtype: torch.dtype) -> None:
    """Raise if an operator is missing, does not run, or does not compute what the plain layer does."""
    weight = torch.arange(-24.0, 24.0).view(6, 8).to(dtype) / 8
    inputs, residual = torch.ones(2, 8, dtype=dtype), torch.ones(2, 6, dtype=dtype)
    layer, plain = ReorderedLinear(_reorder(weight, None), None), PlainLinear(weight, None)
    gated = FusedGatedPair((_reorder(weight, 1), None), (_reorder(weight, 1), None))
    joined = JoinedGatedPair(PlainLinear(torch.cat([weight, weight]), None))
    pairs = (
        (layer(inputs), plain(inputs)),
        (layer.add_to(residual, inputs), plain.add_to(residual, inputs)),
        (gated(inputs), joined(inputs)),
    )
    if not all(torch.allclose(ours, theirs, rtol=0.02) for ours, theirs in pairs):
        raise RuntimeError("its results differ from those of the plain layer")
