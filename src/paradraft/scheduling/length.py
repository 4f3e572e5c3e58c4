"""How far a row drafts: a fixed depth, or one that follows measured acceptance and pass costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from paradraft.scheduling.costs import NODE_COST, PassCosts

PRIOR_ROUNDS = 4.0  # rounds of good will before a row's own record counts
PRIOR_ACCEPTANCE = 0.7
FORGETTING = 0.9  # weight of a row's past per round: text changes character
PROBE_EVERY = 16  # rounds a row stays plain before it may draft again
MIN_GAIN = 1.02  # drafting must promise this much over plain decoding


@dataclass(frozen=True, kw_only=True, slots=True)
class Length:
    """A row's draft budget and the reason for it."""

    depth: int
    nodes: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Others:
    """Who shares the pass: the other rows, and the tokens they feed as far as that is known."""

    rows: int = 0
    tokens: int = 0


ALONE = Others()


class LengthPolicy(Protocol):
    """Chooses the draft budget of a decoding row."""

    def choose(self, row: int, gamma: int | None, cap: int, others: Others = ALONE) -> Length:
        """Return the budget of a row; gamma is the request's own depth (None: the policy's), cap the room left."""
        ...

    def prices(self, num_tokens: int) -> tuple[float, float]:
        """Return what a node more, and what the first one besides, adds to a pass over num_tokens, as shares of it."""
        ...

    def observe(self, row: int, drafted: int, accepted: int) -> None:
        """Learn that a row drafted a path of this depth and that accepted levels stood."""
        ...

    def forget(self, row: int) -> None:
        """Drop what is known of a row: another request will use it."""
        ...


class FixedLength:
    """Always as deep as allowed."""

    def __init__(self, *, gamma: int, nodes: int) -> None:
        self._gamma = gamma
        self._nodes = nodes

    def choose(self, row: int, gamma: int | None, cap: int, others: Others = ALONE) -> Length:  # noqa: ARG002 - port
        """Return gamma levels, or as many as the row may still use."""
        depth = min(self._gamma if gamma is None else gamma, cap)
        if depth == 0:
            return Length(depth=0, nodes=0, reason="plain: nothing to draft for")
        return Length(depth=depth, nodes=max(self._nodes, depth), reason=f"fixed: gamma {depth}")

    def prices(self, num_tokens: int) -> tuple[float, float]:  # noqa: ARG002 - the port's signature
        """Return the usual price of a node: what is drafted does not depend on the clock."""
        return NODE_COST, 0.0

    def observe(self, row: int, drafted: int, accepted: int) -> None:
        """Learn nothing."""

    def forget(self, row: int) -> None:
        """Forget nothing."""


class PricedLength(FixedLength):
    """As deep as allowed, at the measured price of a node: for drafters that weigh their nodes themselves."""

    def __init__(self, *, gamma: int, nodes: int, costs: PassCosts) -> None:
        super().__init__(gamma=gamma, nodes=nodes)
        self._costs = costs

    def prices(self, num_tokens: int) -> tuple[float, float]:
        """Return the measured prices."""
        return self._costs.node_cost(num_tokens), self._costs.draft_cost(num_tokens)


class AdaptiveLength:
    """The depth that promises the most tokens per second for the whole batch.

    A level is taken to stand with probability a, the row's smoothed record: the levels that stood over the
    levels that were tested. A fully accepted draft says that a level was not refused, not how the next
    would have fared, so only tested levels count. Rows whose best depth is 0 are tried again now and then, unless the
    pass is so full that even perfect drafts would not pay.
    """

    def __init__(self, *, gamma: int, nodes: int, costs: PassCosts) -> None:
        self._fixed = FixedLength(gamma=gamma, nodes=nodes)
        self._costs = costs
        self._records: dict[int, _Record] = {}

    def choose(self, row: int, gamma: int | None, cap: int, others: Others = ALONE) -> Length:
        """Return the depth with the best expected tokens per second, 0 if plain decoding is best."""
        widest = self._fixed.choose(row, gamma, cap)
        if widest.depth == 0:
            return widest
        record = self._records.setdefault(row, _Record())
        depth = self._best_depth(record.acceptance, widest, others)
        if depth == 0 and record.is_due_for_probe() and self._best_depth(1.0, widest, others):
            return Length(depth=widest.depth, nodes=widest.nodes, reason="probe: drafting was off for this row")
        if depth == 0:
            return Length(depth=0, nodes=0, reason=f"plain: acceptance {record.acceptance:.2f} does not pay")
        return Length(
            depth=depth, nodes=_num_nodes(widest, depth), reason=f"adaptive: acceptance {record.acceptance:.2f}"
        )

    def observe(self, row: int, drafted: int, accepted: int) -> None:
        """Count the tested levels: the accepted ones, and the first refused one."""
        if drafted:
            self._records.setdefault(row, _Record()).count(tested=min(accepted + 1, drafted), stood=accepted)

    def prices(self, num_tokens: int) -> tuple[float, float]:
        """Return the measured prices."""
        return self._costs.node_cost(num_tokens), self._costs.draft_cost(num_tokens)

    def forget(self, row: int) -> None:
        """Drop the row's record."""
        self._records.pop(row, None)

    def _best_depth(self, acceptance: float, widest: Length, others: Others) -> int:
        fed = others.tokens + 1
        plain = self._costs.seconds(fed)
        if plain is None:
            return widest.depth
        best, best_rate = 0, (others.rows + MIN_GAIN) / plain
        expected, survival = others.rows + 1.0, 1.0
        for depth in range(1, widest.depth + 1):
            survival *= acceptance
            expected += survival
            rate = expected / (self._costs.seconds(fed + _num_nodes(widest, depth)) or plain)
            if rate > best_rate:
                best, best_rate = depth, rate
        return best


def _num_nodes(widest: Length, depth: int) -> int:
    """Return the nodes that a shallower draft of the same width has."""
    return max(depth, widest.nodes * depth // widest.depth)


class _Record:
    """A row's smoothed count of tested levels and of those that stood."""

    def __init__(self) -> None:
        self._tested = PRIOR_ROUNDS
        self._stood = PRIOR_ROUNDS * PRIOR_ACCEPTANCE
        self._plain_rounds = 0

    @property
    def acceptance(self) -> float:
        return self._stood / self._tested

    def count(self, *, tested: int, stood: int) -> None:
        self._tested = FORGETTING * self._tested + tested
        self._stood = FORGETTING * self._stood + stood

    def is_due_for_probe(self) -> bool:
        self._plain_rounds = (self._plain_rounds + 1) % PROBE_EVERY
        return self._plain_rounds == 0
