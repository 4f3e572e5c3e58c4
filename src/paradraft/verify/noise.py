"""Randomness as a function of (seed, choice, position, stream, token id): nothing is drawn in sequence.

A choice is a race: token i with weight w runs at speed w / E(i), E an exponential variable hashed from the key and
the id, and the fastest wins. With G = -log E this is argmax(log w + G), the Gumbel race; the winner has law w / sum(w).
Rounding decides only where two speeds nearly tie (verify/margins.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from paradraft.core.arrays import DoubleArray, IntArray
from paradraft.core.errors import ProtocolError
from paradraft.verify.ranking import Ranking

RACE = 0  # the target's choice under the coupled rule, and the drafters' when they couple with it
DRAFT = 1  # nodes that a drafter samples from the laws it reports
ACCEPT = 2  # whether a sampling rule lets a node stand
RESIDUAL = 3  # the token after the accepted path under a sampling rule
_NUM_STREAMS = 4

HEAD = 256  # ids that race one by one; the others race as one, and among themselves if that one wins

_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio, the counter increment of SplitMix64 (Steele et al. 2014)
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_TAIL, _FLIP = 2**40, 2**40 + 2  # counters that no token id reaches


def lane(stream: int, index: int) -> int:
    """Give the index-th draw of one kind at one position a stream of its own; the first keeps the stream's number.

    A drafter that samples draws node i of a row at the position of the step's first new token, in lane(DRAFT, i).
    Keyed by the node's own position instead, a later step would meet the noise that shaped an earlier rejection.
    """
    return stream + _NUM_STREAMS * index


class GumbelNoise:
    """The noise of one choice of one request: core.ports.Noise."""

    def __init__(self, seed: int, choice: int) -> None:
        """Key the noise: seed 0 .. 2**64-1, choice 0 and up."""
        self._root = _absorb(_absorb(0, seed), choice)

    def flip(self, probability: float, *, position: int, stream: int) -> bool:
        """Return True with this probability."""
        return _uniform(self._key(position, stream), _FLIP) < probability

    def choose(self, weights: DoubleArray, ids: IntArray | None, *, position: int, stream: int) -> int:
        """Return an index of weights with probability weights / sum(weights); see core.ports.Noise.

        The HEAD largest weights race by id. The rest race as one token of their summed weight, and only if that wins
        do they race by id among themselves, so that a whole vocabulary is seldom hashed.
        """
        total = float(weights.sum())
        if not 0.0 < total < math.inf:
            raise ProtocolError(
                f"Weights that sum to {total} are not a distribution.", remedy="Check the logits and draft laws."
            )
        if len(weights) == 1:
            return 0
        key = self._key(position, stream)
        if len(weights) <= HEAD:
            labels = np.arange(len(weights)) if ids is None else ids
            return int(np.argmax(weights / _exponentials(key, labels)))
        return _long_race(key, weights, ids, total)

    def gumbel(self, ids: IntArray, *, position: int, stream: int = RACE) -> DoubleArray:
        """Return the Gumbel variable of each id, [len(ids)]; a coupled drafter ranks by log q plus this."""
        return self.at(position, stream).of(ids)

    def at(self, position: int, stream: int = RACE) -> GumbelsAt:
        """Return the Gumbel variables of one position, for whoever asks about it often."""
        return GumbelsAt(self._key(position, stream))

    def _key(self, position: int, stream: int) -> int:
        return _absorb(_absorb(self._root, position), stream)


class GumbelsAt:
    """The Gumbel variables of one key, by id."""

    def __init__(self, key: int) -> None:
        self.key = key

    def of(self, ids: IntArray) -> DoubleArray:
        """Return the variable of each id, [len(ids)]."""
        noise: DoubleArray = -np.log(_exponentials(self.key, ids))
        return noise

    def of_tail(self) -> float:
        """Return the variable of all ids behind the HEAD most probable ones, which race as one."""
        return -math.log(-math.log(_uniform(self.key, _TAIL)))

    def of_few(self, ids: Sequence[int]) -> list[float]:
        """Return the same up to rounding; quicker for up to about a dozen ids."""
        return [-math.log(-math.log(_uniform(self.key, token))) for token in ids]


def gumbels_of(noises: Sequence[GumbelsAt], ids: IntArray) -> DoubleArray:
    """Return the variables of several keys at once, [len(noises), len(ids)]."""
    keys = np.array([noise.key for noise in noises], dtype=np.uint64)
    noise: DoubleArray = -np.log(_exponentials(keys[:, None], ids))
    return noise


def _long_race(key: int, weights: DoubleArray, ids: IntArray | None, total: float) -> int:
    if ids is not None and not (ids[1:] > ids[:-1]).all():
        order = np.argsort(ids, kind="stable")
        return int(order[_long_race(key, weights[order], ids[order], total)])
    head = Ranking(weights).largest(HEAD)
    front = weights[head]
    speeds = front / _exponentials(key, head if ids is None else ids[head])
    winner = int(np.argmax(speeds))
    tail_speed = (total - float(front.sum())) / -math.log(_uniform(key, _TAIL))
    if tail_speed > speeds[winner]:
        place = _tail_winner(key, weights, ids, head)
        if place is not None:
            return place
    return int(head[winner])


def _tail_winner(key: int, weights: DoubleArray, ids: IntArray | None, head: npt.NDArray[np.intp]) -> int | None:
    """Return the index of the fastest outside the head, None if none has any weight.

    The tail's weight is a difference and may be rounding alone. The variables are the ids' own, which the first race
    did not look at, so a token keeps its luck on whichever side of the border it lies.
    """
    speeds = weights / _exponentials(key, np.arange(len(weights)) if ids is None else ids)
    speeds[head] = 0.0
    place = int(speeds.argmax())
    return place if speeds[place] > 0.0 else None


def _mix(state: int) -> int:
    """Return a 64-bit finaliser of the state: every input bit moves about half of the output bits."""
    state = ((state ^ (state >> 30)) * _FIRST) & _MASK
    state = ((state ^ (state >> 27)) * _SECOND) & _MASK
    return state ^ (state >> 31)


def _absorb(state: int, value: int) -> int:
    return _mix((_mix((value + _STEP) & _MASK) + state * _STEP + 1) & _MASK)


def _uniform(key: int, counter: int) -> float:
    """Return a number strictly between 0 and 1: 52 bits, centred in their cell."""
    return ((_mix((key + counter * _STEP) & _MASK) >> 12) + 0.5) * 2.0**-52


def _exponentials(key: int | npt.NDArray[np.uint64], ids: npt.NDArray[np.int32] | npt.NDArray[np.intp]) -> DoubleArray:
    """Return the exponential variable of each id, all above 0: -log of _uniform(key, id).

    [len(ids)], with several keys [K, 1] a row for each.
    """
    state = ids.astype(np.uint64)
    state *= np.uint64(_STEP)
    state = state + np.asarray(key, dtype=np.uint64)
    state ^= state >> np.uint64(30)
    state *= np.uint64(_FIRST)
    state ^= state >> np.uint64(27)
    state *= np.uint64(_SECOND)
    state ^= state >> np.uint64(31)
    state >>= np.uint64(12)
    uniform = state.astype(np.float64)
    uniform += 0.5
    uniform *= 2.0**-52
    exponentials: DoubleArray = np.negative(np.log(uniform, out=uniform), out=uniform)
    return exponentials
