"""From logits to marginals, and the heads that know the token before: those are asked along one path, in numpy.

A walk of K steps over C candidates takes K products of [C, r] and [r], some microseconds; scoring the whole
vocabulary at each step would take a thousand times that. Legend: R rows, K drafts, C candidates, r rank, d hidden size,
V and Vd target and draft vocabulary.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from paradraft.core.arrays import FloatArray
from paradraft.nets.networks.confidence import ConfidenceHead
from paradraft.nets.networks.correction import MarkovHead
from paradraft.nets.serving.place import as_tensor
from paradraft.nets.serving.rounds import DraftFeed, Marginals
from paradraft.nets.vocabulary import DraftVocabulary


class MarginalHeads:
    """Everything behind the logits: the best candidates, and the heads that know the token before."""

    def __init__(
        self,
        vocabulary: DraftVocabulary,
        markov: MarkovHead | None,
        confidence: ConfidenceHead | None,
        *,
        device: torch.device,
    ) -> None:
        self._ids = vocabulary.ids.to(device)
        self._markov = None if markov is None else MarkovTables(markov, device=device)
        self._confidence = None if confidence is None else ConfidenceTables(confidence, markov, device=device)
        self.num_bytes = 0 if self._markov is None else self._markov.num_bytes

    def marginals(self, logits: Tensor, hidden: Tensor, feed: DraftFeed) -> Marginals:
        """Return the marginals of logits [R, K, Vd] at slots with hidden states [R, K, d]."""
        wide = logits.to(torch.float32)
        best = torch.topk(wide, min(feed.num_candidates, wide.shape[-1]), dim=-1)
        temperatures = as_tensor(feed.temperatures, wide.device)
        scaled = wide if bool((feed.temperatures == 1.0).all()) else wide / temperatures[:, None, None]
        return Marginals(
            ids=self._ids[best.indices].to(torch.int32).cpu().numpy(),
            logits=best.values.cpu().numpy(),
            log_total=torch.logsumexp(scaled, dim=-1).cpu().numpy(),
            correction=None if self._markov is None else self._markov.round(best.indices, hidden),
            confidence=None if self._confidence is None else self._confidence.round(hidden),
        )


class RoundCorrection:
    """Implements nets.serving.rounds.Correction for one round."""

    def __init__(self, first: FloatArray, second: FloatArray, gate: tuple[FloatArray, FloatArray] | None) -> None:
        """Take W1 [V, r], the candidates' W2 [R, K, C, r], and the gate's parts: of slots [R, K, r], for W1 [r, r]."""
        self._first, self._second, self._gate = first, second, gate

    def bias(self, row: int, slot: int, previous: int) -> FloatArray:
        """Return what to add to the logits of the slot's candidates, [C], if `previous` comes before."""
        embedded = self._first[previous]
        if self._gate is not None:
            of_slots, of_token = self._gate
            embedded = embedded / (1.0 + np.exp(-(of_slots[row, slot] + of_token @ embedded)))
        bias: FloatArray = self._second[row, slot] @ embedded
        return bias


class RoundConfidence:
    """Implements nets.serving.rounds.Confidence for one round."""

    def __init__(self, of_slots: FloatArray, of_tokens: FloatArray | None) -> None:
        """Take raw logits of the slots [R, K] and what each token before adds [V]."""
        self._of_slots, self._of_tokens = of_slots, of_tokens

    def chance(self, row: int, slot: int, previous: int) -> float:
        """Return the estimated chance that the slot's best draft stands if `previous` comes before and stood."""
        logit = float(self._of_slots[row, slot])
        if self._of_tokens is not None:
            logit += float(self._of_tokens[previous])
        return 0.5 * (1.0 + math.tanh(0.5 * logit))


class MarkovTables:
    """A Markov head laid out for serving. Tables of tokens before are held on the host, in fp32."""

    def __init__(self, head: MarkovHead, *, device: torch.device) -> None:
        self._first = _host(head.markov_w1.weight)
        self._second = head.markov_w2.weight.detach().to(device=device, dtype=torch.float32)
        self._of_hidden: tuple[Tensor, Tensor] | None = None
        self._of_token: FloatArray | None = None
        if head.gate_proj is not None:
            cut = head.gate_proj.in_features - self._second.shape[1]
            weight = head.gate_proj.weight.detach().to(device=device, dtype=torch.float32)
            self._of_hidden = (weight[:, :cut], head.gate_proj.bias.detach().to(weight))
            self._of_token = _host(weight[:, cut:])
        self.num_bytes = self._first.nbytes + self._second.numel() * self._second.element_size()

    def round(self, candidates: Tensor, hidden: Tensor) -> RoundCorrection:
        """Return the correction of a round with these candidates [R, K, C] (draft ids) and hidden states [R, K, d]."""
        second = self._second[candidates]
        if self._of_hidden is None or self._of_token is None:
            return RoundCorrection(self._first, _host(second), None)
        weight, bias = self._of_hidden
        of_slots = torch.nn.functional.linear(hidden.to(weight.dtype), weight, bias)
        return RoundCorrection(self._first, _host(second), (_host(of_slots), self._of_token))


class ConfidenceTables:
    """A confidence head laid out for serving: what each token before adds is worked out once."""

    def __init__(self, head: ConfidenceHead, markov: MarkovHead | None, *, device: torch.device) -> None:
        of_hidden, of_previous, bias = (part.detach().to(dtype=torch.float32) for part in head.parts())
        self._weight, self._bias = of_hidden.to(device), float(bias)
        self._of_tokens: FloatArray | None = None
        if markov is not None and len(of_previous):
            table = markov.markov_w1.weight.detach().to(dtype=torch.float32)
            self._of_tokens = _host(table @ of_previous.to(table.device))

    def round(self, hidden: Tensor) -> RoundConfidence:
        """Return the confidence of a round with these hidden states [R, K, d]."""
        logits = hidden.to(self._weight.dtype) @ self._weight + self._bias
        return RoundConfidence(_host(logits), self._of_tokens)


def _host(values: Tensor) -> FloatArray:
    array: FloatArray = values.detach().to(device="cpu", dtype=torch.float32).contiguous().numpy()
    return array
