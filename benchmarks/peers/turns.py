"""The measurement: all engines in turns on the same prompts, and what comes of it for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from process import Peer, PeerFailed, PeerRefused

Prompts = Sequence[Sequence[int]]
Bandwidth = Callable[[], float]
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How much is asked. count: tokens of each answer; concurrency: prompts answered together, each in turn."""

    count: int
    repeats: int
    concurrency: tuple[int, ...]
    seconds: float  # longest wait for one turn


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One engine's answer to one group of prompts."""

    arm: str
    rows: int  # the concurrency it belongs to
    repeat: int
    group: int
    tokens: tuple[tuple[int, ...], ...]
    seconds: tuple[tuple[float, ...], ...]  # since the request, for each token
    prompt_tokens: int

    @property
    def first(self) -> float:
        """Return the seconds until every answer of the group had begun."""
        return max(row[0] for row in self.seconds)

    @property
    def last(self) -> float:
        """Return the seconds until the last token."""
        return max(row[-1] for row in self.seconds)

    @property
    def tokens_after_first(self) -> int:
        """Return how many tokens came after every answer had begun."""
        return sum(at > self.first for row in self.seconds for at in row)


@dataclass(kw_only=True, slots=True)
class Measurement:
    """What was measured. missing: (arm, rows) with the reason why there is no figure."""

    turns: list[Turn]
    missing: dict[tuple[str, int], str]
    bandwidth: list[float]  # bytes per second, read before each repeat of each concurrency


def measure(peers: Mapping[str, Peer], prompts: Prompts, plan: Plan, bandwidth: Bandwidth, say: Say) -> Measurement:
    """Let all engines answer all prompts, in turns for each group of prompts, and return what they said when.

    The order changes from group to group and is reversed in every other repeat, so that drift of the machine falls on
    all alike. An engine that fails is left out from there on, one that refuses only where it did.
    """
    asking = _Asking(peers, plan.seconds)
    for rows in plan.concurrency:
        groups = groups_of(prompts, rows)
        for name in peers:
            # Lazy initialisation and first touches of memory are over after a quarter of an answer.
            asking.ask(name, rows, groups[0], max(plan.count // 4, 2))
        for repeat in range(plan.repeats):
            asking.found.bandwidth.append(bandwidth())
            say(f"{rows} at once, repeat {repeat + 1} of {plan.repeats}, {asking.found.bandwidth[-1] / 1e9:.1f} GB/s")
            for number, group in enumerate(groups):
                for name in order(list(peers), number, repeat):
                    answers = asking.ask(name, rows, group, plan.count)
                    if answers is not None:
                        asking.found.turns.append(_turn(name, rows, repeat, number, group, answers))
    return asking.found


def order(names: list[str], group: int, repeat: int) -> list[str]:
    """Return the order of turns: it begins with another engine in each group, and every other repeat runs back."""
    start = group % max(len(names), 1)
    turned = names[start:] + names[:start]
    return turned[::-1] if repeat % 2 else turned


def groups_of(prompts: Prompts, rows: int) -> list[Prompts]:
    """Return groups of exactly this size; what is left over at the end is not measured with so many at once.

    Raises ValueError if there are not enough prompts for one.
    """
    if len(prompts) < rows:
        raise ValueError(f"{rows} prompts at once need at least {rows} prompts, there are {len(prompts)}.")
    return [prompts[start : start + rows] for start in range(0, len(prompts) - rows + 1, rows)]


class _Asking:
    """Asks engines and keeps in mind who has none to give."""

    def __init__(self, peers: Mapping[str, Peer], seconds: float) -> None:
        self.found = Measurement(turns=[], missing={}, bandwidth=[])
        self._peers = peers
        self._seconds = seconds
        self._failed: dict[str, str] = {}

    def ask(self, name: str, rows: int, group: Prompts, count: int) -> list[dict[str, Any]] | None:
        """Return the answers; None, with the reason noted, if there are none or not of the length asked for."""
        if name in self._failed:
            self.found.missing.setdefault((name, rows), self._failed[name])
        if (name, rows) in self.found.missing:
            return None
        try:
            answers = self._peers[name].answer(group, count, seconds=self._seconds)
        except PeerRefused as error:
            self.found.missing[name, rows] = str(error)
            return None
        except PeerFailed as error:
            self._failed[name] = self.found.missing[name, rows] = str(error)
            return None
        lengths = [len(answer["tokens"]) for answer in answers]
        if lengths != [count] * len(group):
            self.found.missing[name, rows] = f"answered with {lengths} tokens, not {count} for each of {len(group)}"
            return None
        return answers


def _turn(name: str, rows: int, repeat: int, number: int, group: Prompts, answers: Sequence[Mapping[str, Any]]) -> Turn:
    return Turn(
        arm=name,
        rows=rows,
        repeat=repeat,
        group=number,
        tokens=tuple(tuple(answer["tokens"]) for answer in answers),
        seconds=tuple(tuple(answer["seconds"]) for answer in answers),
        prompt_tokens=sum(map(len, group)),
    )
