"""From logits to marginals, on torch. Legend: R rows, K drafts, d hidden size, Vd draft vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor

from paradraft.core.arrays import FloatArray, ints
from paradraft.nets.networks.corrected import CorrectedNet
from paradraft.nets.serving.heads import TokenHeads
from paradraft.nets.serving.place import as_tensor
from paradraft.nets.serving.rounds import DraftFeed, Marginals


class MarginalHeads:
    """Everything behind the logits: the best candidates, and the heads that know the token before."""

    def __init__(self, net: CorrectedNet) -> None:
        """Copy the heads' weights to the host."""
        state = net.state_dict()
        self._ids = ints(net.vocabulary.ids.cpu().numpy())
        self._heads = TokenHeads(net.config, lambda name: _host(state[name]).copy())
        self.num_bytes = self._heads.num_bytes

    def marginals(self, logits: Tensor, hidden: Tensor, feed: DraftFeed) -> Marginals:
        """Return the marginals of logits [R, K, Vd] at slots with hidden states [R, K, d]."""
        wide = logits.to(torch.float32)
        best = torch.topk(wide, min(feed.num_candidates, wide.shape[-1]), dim=-1)
        temperatures = as_tensor(feed.temperatures, wide.device)
        scaled = wide if bool((feed.temperatures == 1.0).all()) else wide / temperatures[:, None, None]
        candidates = best.indices.cpu().numpy()
        correction, confidence = self._heads.round(candidates, _host(hidden))
        return Marginals(
            ids=self._ids[candidates],
            logits=best.values.cpu().numpy(),
            log_total=torch.logsumexp(scaled, dim=-1).cpu().numpy(),
            correction=correction,
            confidence=confidence,
        )


def _host(values: Tensor) -> FloatArray:
    array: FloatArray = values.detach().to(device="cpu", dtype=torch.float32).contiguous().numpy()
    return array
