"""Attention of the rows of one pass over the paged cache.

Legend: T fed tokens, H query heads, N key heads, G = H / N, M fed tokens of one row, L keys of one row, D head size.
The G query heads of a key head become lines of one query matrix: measured on a CPU, asking the kernel for grouped
heads instead costs four times as much for one token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor

from paradraft.models.kv_store import KvStore
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


def attend(query: Tensor, store: KvStore, layer: int, spans: Sequence[RowSpan], terms: AttentionTerms) -> Tensor:
    """Return the attention output [T, H * D] of queries [T, H, D] over the cached keys of each row."""
    if len(spans) == 1:
        return _attend_row(query, *store.read(layer, spans[0].keys), spans[0], terms)
    parts = [_attend_row(query[span.first : span.stop], *store.read(layer, span.keys), span, terms) for span in spans]
    return torch.cat(parts)


def attention_entropy(
    query: Tensor, store: KvStore, layer: int, spans: Sequence[RowSpan], terms: AttentionTerms
) -> Tensor:
    """Return the entropy in nats of each head's attention weights, fp32 [T, H]."""
    parts = []
    for span in spans:
        row_query = query[span.first : span.stop]
        weights = _weights(row_query, store.read(layer, span.keys)[0], span, terms)
        lines = torch.special.entr(weights).sum(-1).view(weights.shape[0], len(row_query), -1)
        parts.append(lines.transpose(0, 1).flatten(1))
    return torch.cat(parts)


def _attend_row(query: Tensor, keys: Tensor, values: Tensor, span: RowSpan, terms: AttentionTerms) -> Tensor:
    """Queries [M, H, D] over keys and values [N, L, D] -> [M, H * D]."""
    if terms.is_explicit:
        weights = _weights(query, keys, span, terms)
        return _unfold(torch.bmm(weights.to(values.dtype), values), len(query))
    if span.is_causal:
        return _attend_causal(query, keys, values, terms.scale)
    mixed = functional.scaled_dot_product_attention(
        _fold(query, keys.shape[0]).unsqueeze(1),
        keys.unsqueeze(1),
        values.unsqueeze(1),
        attn_mask=span.mask,
        scale=terms.scale,
    )
    return _unfold(mixed.squeeze(1), len(query))


def _attend_causal(query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """As _attend_row for a chunk without context; here the kernel skips the upper triangle by itself."""
    num_tokens, num_heads, dim = query.shape
    shape = (keys.shape[0], num_heads // keys.shape[0], keys.shape[1], -1)
    mixed = functional.scaled_dot_product_attention(
        query.view(num_tokens, *shape[:2], dim).permute(1, 2, 0, 3),
        keys.unsqueeze(1).expand(shape),
        values.unsqueeze(1).expand(shape),
        is_causal=True,
        scale=scale,
    )
    return mixed.permute(2, 0, 1, 3).reshape(num_tokens, -1)


def _fold(query: Tensor, num_key_heads: int) -> Tensor:
    """Make [M, H, D] into [N, M * G, D]; for one token it is a view."""
    num_tokens, _, dim = query.shape
    return query.view(num_tokens, num_key_heads, -1, dim).transpose(0, 1).reshape(num_key_heads, -1, dim)


def _unfold(mixed: Tensor, num_tokens: int) -> Tensor:
    """Undo _fold: [N, M * G, D] -> [M, H * D]."""
    num_key_heads, _, dim = mixed.shape
    return mixed.reshape(num_key_heads, num_tokens, -1, dim).transpose(0, 1).reshape(num_tokens, -1)


def _weights(query: Tensor, keys: Tensor, span: RowSpan, terms: AttentionTerms) -> Tensor:
    """Return the attention weights in fp32 (float64 stays), [N, M * G, L]."""
    folded = _fold(query, keys.shape[0])
    wide = torch.promote_types(query.dtype, torch.float32)
    scores = torch.bmm(folded.to(wide), keys.to(wide).transpose(1, 2)) * terms.scale
    if terms.softcap is not None:
        scores = torch.tanh(scores / terms.softcap) * terms.softcap
    num_groups = query.shape[1] // keys.shape[0]
    if span.mask is not None:
        scores = scores + span.mask
    elif span.is_causal:
        hidden = torch.ones(len(query), keys.shape[1], dtype=torch.bool, device=query.device).triu_(1)
        scores = scores.masked_fill(hidden.repeat_interleave(num_groups, dim=0), float("-inf"))
    if terms.sinks is None:
        return torch.softmax(scores, dim=-1)
    sinks = terms.sinks.to(wide).view(keys.shape[0], 1, num_groups).expand(-1, len(query), -1)
    return torch.softmax(torch.cat([scores, sinks.reshape(*scores.shape[:2], 1)], dim=-1), dim=-1)[..., :-1]
