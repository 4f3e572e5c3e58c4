"""Log-probabilities of the raw target: fp32, before temperature, penalties or any other parameter."""

from __future__ import annotations

import numpy as np

from paradraft.core.events import Logprob, TokenLogprobs
from paradraft.core.ports import Scores


def logprobs_at(scores: Scores, index: int, token: int, count: int) -> TokenLogprobs:
    """Return the log-probability and rank of token at a scored position, with the `count` best beside it."""
    logits = scores.row(index)
    highest = float(logits.max())
    log_total = highest + float(np.log(np.exp(logits - highest).sum(dtype=np.float64)))
    own = logits[token]
    # Equal logits rank by id, as in selection.
    rank = 1 + int((logits > own).sum()) + int((logits[:token] == own).sum())
    ids, values = scores.top(index, count) if count else ((), ())
    top = tuple(
        Logprob(token=int(best), logprob=float(value) - log_total, rank=place + 1)
        for place, (best, value) in enumerate(zip(ids, values, strict=True))
    )
    return TokenLogprobs(chosen=Logprob(token=token, logprob=float(own) - log_total, rank=rank), top=top)
