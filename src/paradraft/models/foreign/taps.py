"""Taps of a foreign model: hooks that leave a layer's output with the pass that the layer is handed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from paradraft.core.errors import ProtocolError
from paradraft.models.foreign.attention import ForeignPass

EMBEDDING = -1


def check_layers(hidden: Iterable[int], entropy: Iterable[int], num_layers: int) -> None:
    """Raise ProtocolError if a layer that a drafter wants to read does not exist."""
    for layer, least in [*((layer, EMBEDDING) for layer in hidden), *((layer, 0) for layer in entropy)]:
        if not least <= layer < num_layers:
            raise ProtocolError(
                f"layer {layer} cannot be tapped: there are layers {least} to {num_layers - 1}.",
                remedy="Correct the drafter's Needs.",
            )


def hook_taps(layers: Sequence[nn.Module], hidden: Iterable[int]) -> list[RemovableHandle]:
    """Tap the outputs of these layers [1, T, hidden size]; -1 is what the first layer is given."""
    hooks: list[RemovableHandle] = []
    for layer in hidden:
        if layer == EMBEDDING:
            hooks.append(layers[0].register_forward_pre_hook(_tap_input, with_kwargs=True))
        else:
            hooks.append(layers[layer].register_forward_hook(_tap_output(layer), with_kwargs=True))
    return hooks


def _tap_input(_: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    _keep(kwargs, EMBEDDING, args[0] if args else kwargs.get("hidden_states"))


def _tap_output(layer: int) -> Callable[[nn.Module, tuple[object, ...], dict[str, object], object], None]:
    def tap(_: nn.Module, _args: tuple[object, ...], kwargs: dict[str, object], output: object) -> None:
        _keep(kwargs, layer, output[0] if isinstance(output, tuple) else output)

    return tap


def _keep(kwargs: dict[str, object], layer: int, hidden: object) -> None:
    now = kwargs.get("paradraft_pass")
    if isinstance(now, ForeignPass) and isinstance(hidden, Tensor) and hidden.dim() == 3:
        now.taps[layer] = hidden[0]
