"""Every outcome of code that draws through core.ports.Noise, with its probability in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from paradraft.core.arrays import DoubleArray, IntArray

Result = TypeVar("Result")
Tokens = tuple[int, ...]
OutputLaw = dict[Tokens, float]
Key = tuple[int, int]


class ForkingNoise:
    """Follows a script of outcomes, then takes the first possible one; remembers what else was possible.

    Raises AssertionError when a key (position, stream) is drawn twice, since such draws are not independent;
    `drawn` holds keys that were drawn before.
    """

    def __init__(self, script: list[int], drawn: frozenset[Key] = frozenset()) -> None:
        self._script = script
        self.keys = set(drawn)
        self.taken: list[tuple[int, int]] = []  # outcome, number of outcomes
        self.probability = 1.0

    def flip(self, probability: float, *, position: int, stream: int) -> bool:
        chance = min(max(probability, 0.0), 1.0)
        return self._fork([(1, chance), (0, 1.0 - chance)], position, stream) == 1

    def choose(self, weights: DoubleArray, ids: IntArray | None, *, position: int, stream: int) -> int:
        total = float(weights.sum())
        return self._fork([(index, weight / total) for index, weight in enumerate(weights.tolist())], position, stream)

    def _fork(self, outcomes: list[tuple[int, float]], position: int, stream: int) -> int:
        if (position, stream) in self.keys:
            raise AssertionError(f"position {position}, stream {stream} is drawn twice")
        self.keys.add((position, stream))
        possible = [(outcome, chance) for outcome, chance in outcomes if chance > 0.0]
        depth = len(self.taken)
        turn = self._script[depth] if depth < len(self._script) else 0
        outcome, chance = possible[turn]
        self.taken.append((turn, len(possible)))
        self.probability *= chance
        return outcome


def outcomes(
    run: Callable[[ForkingNoise], Result], drawn: frozenset[Key] = frozenset()
) -> Iterator[tuple[float, Result]]:
    """Run once for every outcome of its draws and give (probability, result); the probabilities sum to 1."""
    script: list[int] = []
    while True:
        noise = ForkingNoise(script, drawn)
        result = run(noise)
        yield noise.probability, result
        taken = noise.taken
        while taken and taken[-1][0] == taken[-1][1] - 1:
            taken.pop()
        if not taken:
            return
        script = [turn for turn, _ in taken[:-1]] + [taken[-1][0] + 1]


def continued(law: OutputLaw, target: Callable[[Tokens], DoubleArray], length: int) -> OutputLaw:
    """Return the joint law of the first `length` tokens when the target goes on behind what was emitted.

    target gives the float64 probabilities [V] of the token after some tokens.
    """
    joint: OutputLaw = {}
    for tokens, probability in law.items():
        if len(tokens) >= length:
            joint[tokens[:length]] = joint.get(tokens[:length], 0.0) + probability
            continue
        longer = {
            (*tokens, token): probability * chance for token, chance in enumerate(target(tokens).tolist()) if chance
        }
        for key, value in continued(longer, target, length).items():
            joint[key] = joint.get(key, 0.0) + value
    return joint


def total_variation(left: OutputLaw, right: OutputLaw) -> float:
    """Return half the summed difference."""
    return sum(abs(left.get(key, 0.0) - right.get(key, 0.0)) for key in left.keys() | right.keys()) / 2
