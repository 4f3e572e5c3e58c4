"""Sources of guesses whose every word is given."""

from __future__ import annotations

from collections.abc import Callable

from paradraft.core.ports import Needs
from paradraft.core.records import Batch, Plan, Proposal
from paradraft.drafters.guesses import Guesses, GuessingDrafter, State

Law = Callable[[tuple[int, ...]], dict[int, float]]


class Said(GuessingDrafter, Guesses):
    """A source whose shares after each path are given; it notes what it was shown."""

    def __init__(self, law: Law, name: str = "said", *, layers: tuple[int, ...] = ()) -> None:
        self.needs = Needs(sources=(name,), hidden_layers=layers, extra_bytes=7)
        self.law = law
        self.shown: list[Proposal] = []
        self.num_asked = 0

    def guesses(self, batch: Batch, plan: Plan) -> list[Guesses | None]:
        self.num_asked += int((plan.num_nodes > 0).any())
        return [self if nodes else None for nodes in plan.num_nodes.tolist()]

    def root(self) -> State:
        return ()

    def shares(self, state: State) -> dict[int, float]:
        return self.law(state)

    def descend(self, state: State, token: int) -> State | None:
        return (*state, token)

    def source_of(self, state: State, token: int) -> int:
        return 1

    def observe(self, batch: Batch, proposal: Proposal, scores: object, verdict: object) -> None:
        self.shown.append(proposal)

    def forget(self, rows: object) -> None:
        pass


def saying(laws: dict[tuple[int, ...], dict[int, float]], name: str = "said") -> Said:
    return Said(lambda path: laws.get(path, {}), name)


def broken(*_: object) -> dict[int, float]:
    """Fail."""
    raise RuntimeError("no guess today")
