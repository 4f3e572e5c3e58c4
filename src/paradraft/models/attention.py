"""Attention of the rows of one pass over the paged cache.

Legend: T fed tokens, H query heads, N key heads, G = H / N, M fed tokens of one row, L keys of one row, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor

from paradraft.models.kv_store import LayerCache
from paradraft.models.layout import RowSpan


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AttentionTerms:
    """How one layer turns products of queries and keys into weights."""

    scale: float
    softcap: float | None = None  # scores become softcap * tanh(scores / softcap)
    sinks: Tensor | None = None  # [H] logits of a key that takes weight and gives nothing

    @property
    def is_explicit(self) -> bool:
        """Whether the fused kernel cannot compute it."""
        return self.softcap is not None or self.sinks is not None


def attend(query: Tensor, cache: LayerCache, layer: int, spans: Sequence[RowSpan], terms: AttentionTerms) -> Tensor:
    """Return the attention output [T, H * D] of queries [T, H, D] over the cached keys of each row."""
    if len(spans) == 1:
        return _attend_row(query, *cache.read(layer, spans[0].keys), spans[0], terms)
    parts = [_attend_row(query[span.first : span.stop], *cache.read(layer, span.keys), span, terms) for span in spans]
    return torch.cat(parts)


def attention_entropy(
    query: Tensor, cache: LayerCache, layer: int, spans: Sequence[RowSpan], terms: AttentionTerms
) -> Tensor:
    """Return the entropy in nats of each head's attention weights, fp32 [T, H]."""
    parts = []
    for span in spans:
        weights = _weights(query[span.first : span.stop], cache.read(layer, span.keys)[0], span, terms)
        parts.append(torch.special.entr(weights).sum(-1).flatten(0, 1).transpose(0, 1))
    return torch.cat(parts)


def _attend_row(query: Tensor, keys: Tensor, values: Tensor, span: RowSpan, terms: AttentionTerms) -> Tensor:
    """Queries [M, H, D] over keys and values [N, 1, L, D] -> [M, H * D]."""
    if terms.is_explicit:
        weights = _weights(query, keys, span, terms).to(values.dtype)
        return _joined(torch.matmul(weights, values))
    if not span.is_folded:
        shape = (-1, query.shape[1] // keys.shape[0], -1, -1)
        query, keys, values = _grouped(query, keys.shape[0]), keys.expand(shape), values.expand(shape)
        return _joined(_mix(query, keys, values, span, terms))
    if span.stop - span.first == 1:
        folded = query.view(keys.shape[0], 1, -1, query.shape[-1])
        return _mix(folded, keys, values, span, terms).view(1, -1)
    grouped = _grouped(query, keys.shape[0])
    mixed = _mix(grouped.flatten(1, 2).unsqueeze(1), keys, values, span, terms)
    return _joined(mixed.view(*grouped.shape[:3], -1))


def _mix(query: Tensor, keys: Tensor, values: Tensor, span: RowSpan, terms: AttentionTerms) -> Tensor:
    return functional.scaled_dot_product_attention(
        query, keys, values, attn_mask=span.mask, is_causal=span.is_causal, scale=terms.scale
    )


def _grouped(query: Tensor, num_key_heads: int) -> Tensor:
    """View [M, H, D] as [N, G, M, D]."""
    num_tokens, _, dim = query.shape
    return query.view(num_tokens, num_key_heads, -1, dim).permute(1, 2, 0, 3)


def _joined(mixed: Tensor) -> Tensor:
    """Undo _grouped: [N, G, M, D] -> [M, H * D]."""
    return mixed.permute(2, 0, 1, 3).flatten(1)


def _weights(query: Tensor, keys: Tensor, span: RowSpan, terms: AttentionTerms) -> Tensor:
    """Return the attention weights in fp32 (float64 stays), [N, G, M, L]."""
    wide = torch.promote_types(query.dtype, torch.float32)
    grouped = _grouped(query, keys.shape[0])
    scores = torch.matmul(grouped.to(wide), keys.to(wide).transpose(2, 3)) * terms.scale
    if terms.softcap is not None:
        scores = torch.tanh(scores / terms.softcap) * terms.softcap
    if span.mask is not None:
        scores = scores + span.mask[: scores.shape[2]]
    elif span.is_causal:
        hidden = torch.ones(scores.shape[2:], dtype=torch.bool, device=query.device).triu_(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    if terms.sinks is None:
        return torch.softmax(scores, dim=-1)
    sinks = terms.sinks.to(wide).view(*scores.shape[:2], 1, 1).expand(-1, -1, scores.shape[2], -1)
    return torch.softmax(torch.cat([scores, sinks], dim=-1), dim=-1)[..., :-1]
