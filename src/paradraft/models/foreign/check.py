"""Compares a foreign model on the paged cache with the same model as transformers runs it, once, at load.

An architecture may do to keys, masks or positions what no survey shows; its numbers tell.
"""

from __future__ import annotations

import numpy as np
import torch
from transformers import PreTrainedModel

from paradraft.core.arrays import FloatArray, IntArray, ints, starts_of
from paradraft.core.errors import ModelError
from paradraft.core.ports import Target
from paradraft.core.records import Batch, Proposal
from paradraft.models.foreign.faults import FOREIGN_FAULTS, OTHER_MODEL, raise_if_memory, told

CHECK_PAGES, CHECK_PAGE_SIZE = 5, 4
_PAGES = ints([3, 0, 4])  # out of order on purpose
_NUM_CACHED, _NUM_KNOWN = 5, 7
_PARENTS, _DEPTHS = ints([-1, -1, 0, 1]), ints([1, 1, 2, 2])
_PATHS = ((0, 2), (1, 3))
_PATH_OF = (0, 1, 0, 1)  # the path a node is on
_LIMITS = {torch.float32: 1e-4, torch.float64: 1e-9}  # relative error of the worst position
_LIMIT_16_BIT = 0.1  # of the median position: near-ties between experts fall either way


def check_against_eager(target: Target, model: PreTrainedModel, attention: str) -> None:
    """Raise ModelError if the target scores a short text and a tree otherwise than the model's own code does.

    attention is the implementation that the target's passes run with; the model is left with it.
    """
    kind = str(model.config.model_type)
    tokens = ints((np.arange(_NUM_KNOWN + len(_PARENTS)) * 7919 + 13) % target.limits.vocab_size)
    try:
        ours = _paged_rows(target, tokens)
        model.set_attn_implementation("eager")
        theirs = _eager_rows(model, tokens)
        model.set_attn_implementation(attention)
    except FOREIGN_FAULTS as error:
        raise_if_memory(error)
        raise ModelError(
            f"{kind}: a trial pass on the paged cache fails ({told(error)}).", remedy=OTHER_MODEL
        ) from error
    errors = np.linalg.norm(ours - theirs, axis=1) / (np.linalg.norm(theirs, axis=1) + 1e-12)
    wide = _LIMITS.get(model.dtype)
    found, limit = (float(errors.max()), wide) if wide else (float(np.median(errors)), _LIMIT_16_BIT)
    if not found <= limit:
        raise ModelError(
            f"{kind}: on the paged cache its logits are off by {found:.1e} of their size, more than rounding "
            f"({limit:.0e}), so its attention does something that is not served.",
            remedy=OTHER_MODEL,
        )


def _paged_rows(target: Target, tokens: IntArray) -> FloatArray:
    """Return the logits of a chunk, of the last known token and of the nodes, from two passes over the cache."""
    chunk = _rows(target, tokens[:_NUM_CACHED], 0, Proposal.empty(1))
    return np.concatenate([chunk, _rows(target, tokens[:_NUM_KNOWN], _NUM_CACHED, _tree(tokens[_NUM_KNOWN:]))])


def _rows(target: Target, tokens: IntArray, cached: int, proposal: Proposal) -> FloatArray:
    """Feed one row's tokens that are not cached, and score all of the first chunk but only the end of a later one."""
    batch = Batch(
        rows=ints([0]),
        starts=starts_of([len(tokens) - cached]),
        tokens=tokens[cached:],
        context_len=ints([cached]),
        num_scored=ints([1 if cached else len(tokens)]),
        page_starts=starts_of([len(_PAGES)]),
        pages=_PAGES,
        page_size=CHECK_PAGE_SIZE,
        history=(tokens,),
        sampling=(),
    )
    scores = target.submit(batch, proposal).wait()
    return np.stack([scores.row(index).copy() for index in range(int(scores.starts[-1]))])


def _tree(tokens: IntArray) -> Proposal:
    return Proposal(
        starts=starts_of([len(tokens)]),
        tokens=tokens,
        parents=_PARENTS,
        depths=_DEPTHS,
        sources=np.ones(len(tokens), dtype=np.uint32),
    )


def _eager_rows(model: PreTrainedModel, tokens: IntArray) -> FloatArray:
    """Return the same logits from the model's own run over each path of the tree."""
    known, nodes = tokens[:_NUM_KNOWN], tokens[_NUM_KNOWN:]
    paths = np.stack([np.concatenate([known, nodes[list(path)]]) for path in _PATHS]).astype(np.int64)
    with torch.inference_mode():
        logits = model(input_ids=torch.from_numpy(paths).to(model.device), use_cache=False).logits
    scored: FloatArray = logits.float().cpu().numpy()
    of_nodes = np.stack([scored[_PATH_OF[node], _NUM_KNOWN - 1 + _DEPTHS[node]] for node in range(len(nodes))])
    return np.concatenate([scored[0, :_NUM_CACHED], scored[0, _NUM_KNOWN - 1 : _NUM_KNOWN], of_nodes])
