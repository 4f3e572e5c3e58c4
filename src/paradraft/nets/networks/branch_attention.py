"""Attention of branches that grow out of one text: each sees a part of the text and what belongs to itself.

Legend: A branches, M queries of each, J own keys of each, T keys of the text, H query heads, N key heads, G = H / N,
D head size. In training the branches are anchors of one sequence, in serving a row is one branch of its context.
"""

from __future__ import annotations

import torch
from torch import Tensor

KeyValues = tuple[Tensor, Tensor]


def attend_branches(
    queries: Tensor, text: KeyValues, own: KeyValues | None, *, sees: Tensor | None, own_sees: Tensor | None
) -> Tensor:
    """Return the outputs [A, M, H * D] of queries [A, M, H, D].

    text are keys and values [N, T, D] that all branches share, own those [A, J, N, D] of each branch. sees [A, T] and
    own_sees [M, J] say which keys a query may see, None: all; each query must see one at least. No key is copied, so
    the text may be a view of a large cache. The softmax is taken in fp32 or wider.
    """
    branches, num_queries, heads, size = queries.shape
    grouped = (queries * size**-0.5).view(branches, num_queries, text[0].shape[0], -1, size).permute(2, 0, 1, 3, 4)
    scores = _text_scores(grouped, text[0], sees)
    if own is not None:
        scores = torch.cat([scores, _own_scores(grouped, own[0], own_sees)], dim=-1)
    wide = torch.promote_types(scores.dtype, torch.float32)
    weights = torch.softmax(scores, dim=-1, dtype=wide).to(scores.dtype)
    num_text = text[0].shape[1]
    mixed = torch.matmul(weights[..., :num_text].flatten(1, 3), text[1]).view(grouped.shape)
    if own is not None:
        of_own = torch.matmul(weights[..., num_text:].flatten(2, 3), own[1].permute(2, 0, 1, 3))
        mixed = mixed + of_own.view(grouped.shape)
    return mixed.permute(1, 2, 0, 3, 4).reshape(branches, num_queries, heads * size)


def _text_scores(grouped: Tensor, keys: Tensor, sees: Tensor | None) -> Tensor:
    """Return [N, A, M, G, T]."""
    scores = torch.matmul(grouped.flatten(1, 3), keys.transpose(1, 2)).view(*grouped.shape[:-1], -1)
    return scores if sees is None else scores.masked_fill(~sees[None, :, None, None, :], float("-inf"))


def _own_scores(grouped: Tensor, keys: Tensor, sees: Tensor | None) -> Tensor:
    """Return [N, A, M, G, J]."""
    scores = torch.matmul(grouped.flatten(2, 3), keys.permute(2, 0, 3, 1)).view(*grouped.shape[:-1], -1)
    return scores if sees is None else scores.masked_fill(~sees[None, None, :, None, :], float("-inf"))
