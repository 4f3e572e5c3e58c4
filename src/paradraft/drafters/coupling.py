"""Bends guesses towards what the target will choose under the coupled rule (verify/coupled.py).

The target takes argmax(log p + G), and G is known beforehand: it is a hash of seed, choice, position and token. So of
two tokens that are as likely, the one with the larger G is chosen (Daliri et al., arXiv 2408.07978).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from paradraft.core.arrays import DoubleArray, IntArray, ints
from paradraft.core.records import Batch, RowSampling
from paradraft.verify.noise import GumbelNoise

_LARGEST = 30.0  # of a Gumbel variable that is put to use; chance e**-30
_FEW = 12  # tokens, above which arrays are quicker


class Coupling:
    """The noise of one row from its first new token on."""

    def __init__(self, sampling: RowSampling, start: int) -> None:
        """Read the noise of a request from position `start`, that of the first token to be chosen."""
        self._key = (sampling.seed, sampling.choice)
        self._start = start

    def at(self, depth: int) -> PositionNoise:
        """Return the noise of the children of a node at this depth (0: of the last known token)."""
        return _noise_at(*self._key, self._start + depth)

    def gumbel(self, tokens: list[int], depth: int) -> list[float]:
        """Return G of each token as the child of a node at this depth."""
        known = self.at(depth).of(tokens)
        return [known[token] for token in tokens]

    def bend(self, shares: dict[int, float], depth: int) -> dict[int, float]:
        """Return the shares with each p multiplied by e**G, against what the unnamed tokens have left.

        A softmax over log p + G, as of a guess p that may be off; were p known to be right, G would leave no doubt.
        """
        noise = self.at(depth).of(shares)
        weights = [p * math.exp(min(noise[token], _LARGEST)) for token, p in shares.items()]
        total = sum(weights) + max(1.0 - sum(shares.values()), 0.0)
        return {token: weight / total for token, weight in zip(shares, weights, strict=True)} if total > 0.0 else {}


class PositionNoise:
    """The Gumbel variables of one position, remembered: in a tree many nodes share it, and so do rounds."""

    def __init__(self, noise: GumbelNoise, position: int) -> None:
        self._noise = noise
        self._position = position
        self._known: dict[int, float] = {}

    def of(self, tokens: Iterable[int]) -> dict[int, float]:
        """Return token -> G for these tokens, and perhaps for others."""
        missing = [token for token in tokens if token not in self._known]
        if missing:
            is_few = len(missing) <= _FEW
            found = (
                self._noise.gumbel_of(missing, position=self._position)
                if is_few
                else self.of_many(ints(missing)).tolist()
            )
            self._known.update(zip(missing, found, strict=True))
        return self._known

    def of_many(self, tokens: IntArray) -> DoubleArray:
        """Return G of each token, [len(tokens)], without remembering them."""
        return self._noise.gumbel(tokens, position=self._position)


def coupling_of(batch: Batch, index: int) -> Coupling | None:
    """Return the row's noise, None where it takes the best token without any."""
    sampling = batch.sampling[index]
    return None if sampling.params.is_greedy else Coupling(sampling, len(batch.history[index]))


@lru_cache(maxsize=1024)
def _noise_at(seed: int, choice: int, position: int) -> PositionNoise:
    """Return the noise of a position; a function of its key alone, so whoever asks again may have the same one."""
    return PositionNoise(GumbelNoise(seed, choice), position)
