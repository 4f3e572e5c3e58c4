"""What the attention layers of a foreign model call instead of their own arithmetic: attention over the paged cache.

transformers hands each layer's queries, keys and values, rope applied, to a function registered under a name, and
forwards unknown keyword arguments to it; the pass travels as such an argument, so nothing is kept between passes.
Legend: T fed tokens, H query heads, N key heads, D key size, E value size.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from torch import Tensor, nn
from transformers import AttentionInterface

from paradraft.models.attention import AttentionTerms, attend, attention_entropy
from paradraft.models.kv_store import KvStore
from paradraft.models.layout import PassLayout
from paradraft.models.visibility import Window

PAGED = "paradraft_paged"


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerPlace:
    """Which layer an attention module serves and how far back it sees."""

    layer: int  # from 0
    window: Window


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ForeignPass:
    """One pass: where its tokens stand, the cache, and what the layers leave behind."""

    layout: PassLayout
    store: KvStore
    places: Mapping[nn.Module, LayerPlace]  # of the attention modules
    entropy_layers: Set[int]
    taps: dict[int, Tensor] = field(default_factory=dict)  # by layer, [T, hidden size]
    entropies: dict[int, Tensor] = field(default_factory=dict)  # by layer, [T, H]


def paged_attention(  # noqa: PLR0913  # the signature is transformers'
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001  # the layout says what is seen
    *,
    paradraft_pass: ForeignPass,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Cache keys [1, N, T, D] and values [1, N, T, E], and return what queries [1, H, T, D] find, [1, T, H, E]."""
    now, store = paradraft_pass, paradraft_pass.store
    place = now.places[module]
    terms = AttentionTerms(
        scale=query.shape[-1] ** -0.5 if scaling is None else scaling,
        softcap=softcap,
        sinks=s_aux,
    )
    store.append(place.layer, key[0].transpose(0, 1), value[0].transpose(0, 1), now.layout.slots)
    lines, spans = query[0].transpose(0, 1), now.layout.spans[place.window]
    if place.layer in now.entropy_layers:
        now.entropies[place.layer] = attention_entropy(lines, store, place.layer, spans, terms)
    mixed = attend(lines, store, place.layer, spans, terms)
    return mixed.view(1, query.shape[2], query.shape[1], -1), None


AttentionInterface.register(PAGED, paged_attention)
