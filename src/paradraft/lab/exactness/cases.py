"""The matrix: which ways of answering are compared with plain decoding, and who does which of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

PLAIN, PEER = "plain", "transformers"
_ORDERS = ("forward", "backward", "shuffled")


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One way of answering all prompts."""

    name: str  # of the drafter, or PLAIN or PEER
    temperature: float
    gamma: int  # 0: plain decoding
    rows: int  # prompts answered together
    order: str  # of the prompts

    def __str__(self) -> str:
        """Return the case in words."""
        several = "1 row" if self.rows == 1 else f"{self.rows} rows {self.order}"
        return f"{self.name}, T={self.temperature:g}, gamma {self.gamma}, {several}"


def reference_case(temperature: float) -> Case:
    """Return what all cases of a temperature are compared with: plain decoding, one prompt after another."""
    return Case(name=PLAIN, temperature=temperature, gamma=0, rows=1, order="forward")


def matrix(
    drafters: Sequence[str], *, gammas: Sequence[int], temperatures: Sequence[float], rows: int, with_peer: bool
) -> list[Case]:
    """Return all cases, those of a drafter together: plain decoding in batches, every drafter, the peer."""
    cases = [
        Case(name=PLAIN, temperature=temperature, gamma=0, rows=rows, order=order)
        for temperature in temperatures
        for order in _ORDERS
    ]
    for name in dict.fromkeys(drafters):
        cases += cases_of(name, gammas=gammas, temperatures=temperatures, rows=rows)
    if with_peer:
        cases.append(Case(name=PEER, temperature=0.0, gamma=0, rows=1, order="forward"))
    return cases


def cases_of(name: str, *, gammas: Sequence[int], temperatures: Sequence[float], rows: int) -> list[Case]:
    """Return the cases of one drafter, those of one row first.

    Greedy: every gamma, alone and in batches of every order. Sampled: the shortest and the longest gamma alone, the
    longest in batches.
    """
    cases = [
        Case(name=name, temperature=temperature, gamma=gamma, rows=number, order=order)
        for temperature in temperatures
        for gamma, number, order in _ways(gammas, rows, is_greedy=temperature == 0.0)
    ]
    return sorted(cases, key=lambda case: case.rows > 1)


def share(cases: Sequence[Case], part: int, parts: int) -> list[Case]:
    """Return the cases of one of several processes: they take turns, so that each has some of every drafter."""
    return list(cases[part::parts])


def ordered(count: int, order: str) -> list[int]:
    """Return 0 .. count-1 forward, backward or shuffled (the same way each time)."""
    indices = list(range(count))
    if order == "backward":
        return indices[::-1]
    if order == "shuffled":
        random.Random(count).shuffle(indices)
    return indices


def _ways(gammas: Sequence[int], rows: int, *, is_greedy: bool) -> list[tuple[int, int, str]]:
    alone = gammas if is_greedy else dict.fromkeys((gammas[0], gammas[-1]))
    together = gammas if is_greedy else gammas[-1:]
    return [(gamma, 1, "forward") for gamma in alone] + [
        (gamma, rows, order) for gamma in together for order in _ORDERS
    ]
