"""The heads that know the token before, laid out on the host: they are asked along one path, in numpy.

A walk of K steps over C candidates takes K products of [C, r] and [r], some microseconds; scoring the whole
vocabulary at each step would take a thousand times that. Legend: R rows, K drafts, C candidates, r rank, d hidden size,
V and Vd target and draft vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray
from paradraft.nets.config import NetConfig

Reader = Callable[[str], FloatArray]  # gives a tensor of the network by its name, in fp32


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


class TokenHeads:
    """The Markov head and the confidence head of a network, as far as it has them."""

    def __init__(self, config: NetConfig, read: Reader) -> None:
        """Read the heads' tensors, which have the names of nets.networks."""
        self._markov = _MarkovTables(config, read) if config.markov_rank else None
        first = self._markov.first if self._markov is not None and config.confidence_reads_markov else None
        self._confidence = _ConfidenceTables(read, first) if config.has_confidence else None
        self.num_bytes = 0 if self._markov is None else self._markov.num_bytes

    def round(self, candidates: IntArray, hidden: FloatArray) -> tuple[RoundCorrection | None, RoundConfidence | None]:
        """Return what they say in a round with these candidates [R, K, C] (draft ids) and hidden states [R, K, d]."""
        correction = None if self._markov is None else self._markov.round(candidates, hidden)
        confidence = None if self._confidence is None else self._confidence.round(hidden)
        return correction, confidence


class _MarkovTables:
    """A Markov head."""

    def __init__(self, config: NetConfig, read: Reader) -> None:
        self.first = read("markov_head.markov_w1.weight")
        self._second = read("markov_head.markov_w2.weight")
        self._gate: tuple[FloatArray, FloatArray, FloatArray] | None = None
        if config.markov_kind == "gated":
            weight, cut = read("markov_head.gate_proj.weight"), config.hidden_size
            self._gate = (weight[:, :cut], weight[:, cut:], read("markov_head.gate_proj.bias"))
        self.num_bytes = self.first.nbytes + self._second.nbytes

    def round(self, candidates: IntArray, hidden: FloatArray) -> RoundCorrection:
        """Return the correction of a round."""
        second: FloatArray = self._second[candidates]
        if self._gate is None:
            return RoundCorrection(self.first, second, None)
        of_hidden, of_token, bias = self._gate
        return RoundCorrection(self.first, second, (hidden @ of_hidden.T + bias, of_token))


class _ConfidenceTables:
    """A confidence head; what each token before adds is worked out once."""

    def __init__(self, read: Reader, first: FloatArray | None) -> None:
        """Take W1 [V, r] if the head reads it."""
        weight = read("confidence_head.proj.weight")[0]
        cut = len(weight) - (0 if first is None else first.shape[1])
        self._weight, self._bias = weight[:cut], read("confidence_head.proj.bias")[0]
        self._of_tokens: FloatArray | None = None if first is None else first @ weight[cut:]

    def round(self, hidden: FloatArray) -> RoundConfidence:
        """Return the confidence of a round."""
        return RoundConfidence(hidden @ self._weight + self._bias, self._of_tokens)
