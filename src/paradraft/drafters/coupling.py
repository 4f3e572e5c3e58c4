"""Bends guesses towards what the target will choose under the coupled rule (verify/coupled.py).

The target takes argmax(log p + G), and G is known beforehand: it is a hash of seed, choice, position and token. So of
two tokens that are as likely, the one with the larger G is chosen (Daliri et al., arXiv 2408.07978).
"""

from __future__ import annotations

import math

from paradraft.core.arrays import ints
from paradraft.core.records import Batch, RowSampling
from paradraft.verify.noise import GumbelNoise

_LARGEST = 30.0  # of a Gumbel variable that is put to use; chance e**-30


class Coupling:
    """The noise of one row from its first new token on."""

    def __init__(self, sampling: RowSampling, start: int) -> None:
        """Read the noise of a request from position `start`, that of the first token to be chosen."""
        self._noise = GumbelNoise(sampling.seed, sampling.choice)
        self._start = start

    def gumbel(self, tokens: list[int], depth: int) -> list[float]:
        """Return G of each token as the child of a node at this depth (0: of the last known token)."""
        values: list[float] = self._noise.gumbel(ints(tokens), position=self._start + depth).tolist()
        return values

    def bend(self, shares: dict[int, float], depth: int) -> dict[int, float]:
        """Return the shares with each p multiplied by e**G, against what the unnamed tokens have left.

        A softmax over log p + G, as of a guess p that may be off; were p known to be right, G would leave no doubt.
        """
        noise = self.gumbel(list(shares), depth)
        weights = [p * math.exp(min(g, _LARGEST)) for p, g in zip(shares.values(), noise, strict=True)]
        total = sum(weights) + max(1.0 - sum(shares.values()), 0.0)
        return {token: weight / total for token, weight in zip(shares, weights, strict=True)} if total > 0.0 else {}


def coupling_of(batch: Batch, index: int) -> Coupling | None:
    """Return the row's noise, None where it takes the best token without any."""
    sampling = batch.sampling[index]
    return None if sampling.params.is_greedy else Coupling(sampling, len(batch.history[index]))
