"""Bends guesses towards what the target will choose under the coupled rule (verify/coupled.py).

The target takes argmax(log p + G), and G is known beforehand: it is a hash of seed, choice, position and token. So of
two tokens that are as likely, the one with the larger G is chosen (Daliri et al., arXiv 2408.07978).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from paradraft.core.arrays import DoubleArray, IntArray, ints
from paradraft.core.records import Batch, RowSampling
from paradraft.verify.noise import GumbelNoise, gumbels_of

MAX_POSITIONS = 4096  # whose noise is remembered
_LARGEST = 30.0  # of a Gumbel variable that is put to use; chance e**-30
_FEW = 12  # tokens, above which arrays are quicker


class Coupling:
    """The noise of one row from its first new token on."""

    def __init__(self, sampling: RowSampling, start: int) -> None:
        """Read the noise of a request from position `start`, that of the first token to be chosen."""
        self._key = (sampling.seed, sampling.choice)
        self._start = start
        self._levels: dict[int, PositionNoise] = {}

    def at(self, depth: int) -> PositionNoise:
        """Return the noise of the children of a node at this depth (0: of the last known token)."""
        found = self._levels.get(depth)
        if found is None:
            found = self._levels[depth] = _noise_at(*self._key, self._start + depth)
        return found

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

    def __init__(self, seed: int, choice: int, position: int) -> None:
        self._place = (seed, choice, position)
        self.gumbels = GumbelNoise(seed, choice).at(position)
        self._known: dict[int, float] = {}

    def ahead(self, count: int) -> list[PositionNoise]:
        """Return the noise of this position and of those behind it, `count` in all."""
        seed, choice, position = self._place
        return [self, *[_noise_at(seed, choice, position + step) for step in range(1, count)]]

    def of(self, tokens: Iterable[int]) -> dict[int, float]:
        """Return token -> G for these tokens, and perhaps for others."""
        known = self._known
        missing = [token for token in tokens if token not in known]
        if missing:
            few = len(missing) <= _FEW
            found = self.gumbels.of_few(missing) if few else self.gumbels.of(ints(missing)).tolist()
            known.update(zip(missing, found, strict=True))
        return known

    def learn(self, tokens: Sequence[int], gumbel: Sequence[float]) -> None:
        """Remember the variables of these tokens, which somebody has computed."""
        self._known.update(zip(tokens, gumbel, strict=True))


def races(
    noises: Sequence[PositionNoise], tokens: IntArray, log_shares: DoubleArray, count: int
) -> npt.NDArray[np.intp]:
    """Return the places of the `count` tokens that are first in a race of these shares, both [n], at each position.

    [len(noises), count at most], in any order. Several positions at once take little longer than one.
    """
    gumbel = gumbels_of([noise.gumbels for noise in noises], tokens)
    places = np.argpartition(log_shares + gumbel, -min(count, len(tokens)), axis=1)[:, -count:]
    first, heard = tokens[places].tolist(), np.take_along_axis(gumbel, places, axis=1).tolist()
    for noise, named, values in zip(noises, first, heard, strict=True):
        noise.learn(named, values)
    return places


def coupling_of(batch: Batch, index: int) -> Coupling | None:
    """Return the row's noise, None where it takes the best token without any."""
    sampling = batch.sampling[index]
    return None if sampling.params.is_greedy else Coupling(sampling, len(batch.history[index]))


@lru_cache(maxsize=MAX_POSITIONS)
def _noise_at(seed: int, choice: int, position: int) -> PositionNoise:
    """Return the noise of a position; a function of its key alone, so whoever asks again may have the same one."""
    return PositionNoise(seed, choice, position)
