"""Finds out what the attention layers of a foreign model are like by watching one small pass over it.

Whatever the paged cache cannot serve is refused here, named by its layer: layers that do not go through
transformers' attention interface, masks that are not causal or a sliding window, heads of differing sizes.
Legend: T tokens of the pass, H query heads, N key heads, D key size, E value size, P positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedConfig, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface

from paradraft.core.errors import ModelError
from paradraft.models.foreign.attention import LayerPlace
from paradraft.models.foreign.faults import FOREIGN_FAULTS, OTHER_MODEL, raise_if_memory, told
from paradraft.models.kv_store import KvShape
from paradraft.models.visibility import Window

SURVEYED = "paradraft_survey"
_NUM_TOKENS = 4
_LEAST_POSITIONS = 8192


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Survey:
    """The decoder layers of a model and the shape of what their attention caches."""

    layers: tuple[nn.Module, ...]
    places: dict[nn.Module, LayerPlace]  # of the attention modules
    shape: KvShape
    num_heads: int  # query heads

    @property
    def windows(self) -> tuple[Window, ...]:
        """Return the windows in use, each once."""
        return tuple({place.window: None for place in self.places.values()})


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Call:
    """One call of the attention interface."""

    module: nn.Module
    num_heads: int
    num_key_heads: int
    key_dim: int
    value_dim: int
    visible: Tensor | None  # [1, 1, 2, P] which keys two queries see


@dataclass(slots=True)
class _Watch:
    calls: list[_Call] = field(default_factory=list)


def survey(model: PreTrainedModel) -> Survey:
    """Return what one pass shows; raise ModelError naming the layer and the reason if the model cannot be served."""
    kind, watch = str(model.config.model_type), _Watch()
    model.set_attn_implementation(SURVEYED)
    device = model.device
    try:
        with torch.inference_mode():
            model(
                input_ids=torch.arange(_NUM_TOKENS, device=device)[None],
                position_ids=torch.arange(_NUM_TOKENS, device=device)[None],
                use_cache=False,
                paradraft_pass=watch,
            )
    except FOREIGN_FAULTS as error:
        raise_if_memory(error)
        raise _refusal(kind, f"a trial pass fails ({told(error)})") from error
    layers = _decoder_layers(kind, model, watch.calls)
    _check_one_call_each(kind, watch.calls, layers)
    places = {
        call.module: LayerPlace(layer=layer, window=_window(kind, layer, call.visible))
        for layer, call in enumerate(watch.calls)
    }
    return Survey(
        layers=layers,
        places=places,
        shape=_shape(kind, watch.calls),
        num_heads=watch.calls[0].num_heads,
    )


def _refusal(kind: str, reason: str) -> ModelError:
    return ModelError(f"{kind}: {reason}, so the paged cache cannot serve it.", remedy=OTHER_MODEL)


def _record_call(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    paradraft_pass: _Watch | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Note the call; return zeros [1, T, H, E]."""
    if paradraft_pass is not None:
        call = _Call(
            module=module,
            num_heads=query.shape[1],
            num_key_heads=key.shape[1],
            key_dim=key.shape[3],
            value_dim=value.shape[3],
            visible=attention_mask,
        )
        paradraft_pass.calls.append(call)
    return query.new_zeros(1, query.shape[2], query.shape[1], value.shape[3]), None


def _sample_mask(*, mask_function: Callable[..., Tensor], config: PreTrainedConfig, **_: object) -> Tensor:
    """Return which of all keys the last position and one in the middle see, [1, 1, 2, P], instead of a mask."""
    length = max(_LEAST_POSITIONS, int(getattr(config, "max_position_embeddings", 0) or 0))
    first = torch.zeros(1, 1, 1, 1, dtype=torch.int64)
    keys = torch.arange(length).view(1, 1, 1, -1)
    return mask_function(first, first, _sampled(length).view(1, 1, -1, 1), keys).expand(1, 1, 2, -1)


def _sampled(length: int) -> Tensor:
    return torch.tensor([length // 2 + 1, length - 1])


def _window(kind: str, layer: int, visible: Tensor | None) -> Window:
    """Read how far back a layer sees from its sampled mask."""
    if visible is None or visible.dtype != torch.bool or visible.shape[:3] != (1, 1, 2):
        raise _refusal(kind, f"layer {layer} does not say which keys it sees")
    seen = visible[0, 0].cpu()
    length = seen.shape[1]
    reach = int(seen[1].sum())
    back = _sampled(length)[:, None] - torch.arange(length)
    if not torch.equal(seen, (back >= 0) & (back < reach)):
        raise _refusal(kind, f"layer {layer} sees other keys than all earlier ones or a sliding window of them")
    return None if reach == length else reach


def _decoder_layers(kind: str, model: PreTrainedModel, calls: list[_Call]) -> tuple[nn.Module, ...]:
    """Return the list of layers that the attention modules are part of."""
    names = {module: name for name, module in model.named_modules()}
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and calls and names[calls[0].module].startswith(f"{name}.0."):
            return tuple(module)
    raise _refusal(kind, "its layers compute attention by code of their own, or do not hand on what it needs")


def _check_one_call_each(kind: str, calls: list[_Call], layers: tuple[nn.Module, ...]) -> None:
    parts = [set(layer.modules()) for layer in layers]
    for number, part in enumerate(parts):
        count = sum(call.module in part for call in calls)
        if count != 1:
            name = type(layers[number]).__name__
            raise _refusal(kind, f"layer {number} ({name}) calls attention {count} times instead of once")
    if len(calls) != len(layers) or any(call.module not in part for call, part in zip(calls, parts, strict=True)):
        raise _refusal(kind, "its layers are not run in order, each once")


def _shape(kind: str, calls: list[_Call]) -> KvShape:
    sizes = [(call.num_heads, call.num_key_heads, call.key_dim, call.value_dim) for call in calls]
    for layer, size in enumerate(sizes):
        if size != sizes[0]:
            raise _refusal(kind, f"layer {layer} has other attention heads {size} than layer 0 {sizes[0]}")
    _, num_key_heads, key_dim, value_dim = sizes[0]
    return KvShape(num_layers=len(calls), num_heads=num_key_heads, key_dim=key_dim, value_dim=value_dim)


AttentionInterface.register(SURVEYED, _record_call)
AttentionMaskInterface.register(SURVEYED, _sample_mask)
