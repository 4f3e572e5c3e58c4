"""How far a row drafts: a fixed depth, or one that follows measured acceptance and pass costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from paradraft.core.records import Hindrance
from paradraft.scheduling.acceptance import Profile, RowRecord, cumulative
from paradraft.scheduling.costs import NODE_COST, DraftCosts, PassCosts

PROBE_EVERY = 16  # rounds a row stays plain before it may draft again
MOST_DOUBLINGS = 3  # of that, one for each probe that fails
MIN_GAIN = 1.02  # drafting must promise this much over plain decoding
SWITCH_GAIN = 0.03  # tokens per pass that another depth must promise over the one in use
COOLDOWN = 4  # rounds a depth is kept


@dataclass(frozen=True, kw_only=True, slots=True)
class Length:
    """A row's draft budget and the reason for it."""

    depth: int
    nodes: int
    reason: str
    hindrance: Hindrance | None = None  # without a draft: why; None where the room left allows none


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

    def observe(self, row: int, drafted: int, accepted: int, nodes: int = 0) -> None:
        """Learn that a row verified a draft of this depth with so many nodes, and that `accepted` levels stood."""
        ...

    def forget(self, row: int) -> None:
        """Drop what is known of a row: another request will use it."""
        ...


class FixedLength:
    """Always as deep as allowed."""

    def __init__(self, *, gamma: int, nodes: int, price: float = NODE_COST) -> None:
        self._gamma = gamma
        self._nodes = nodes
        self._price = price

    def choose(self, row: int, gamma: int | None, cap: int, others: Others = ALONE) -> Length:  # noqa: ARG002 - port
        """Return gamma levels, or as many as the row may still use."""
        depth = min(self._gamma if gamma is None else gamma, cap)
        if depth == 0:
            return Length(depth=0, nodes=0, reason="plain: nothing to draft for", hindrance=self._hindrance(gamma))
        return Length(depth=depth, nodes=max(self._nodes, depth), reason=f"fixed: gamma {depth}")

    def _hindrance(self, gamma: int | None) -> Hindrance | None:
        if gamma == 0:
            return Hindrance.REQUEST
        return Hindrance.OFF if gamma is None and self._gamma == 0 else None

    def prices(self, num_tokens: int) -> tuple[float, float]:  # noqa: ARG002 - the port's signature
        """Return the price of a node that was set: what is drafted does not depend on the clock."""
        return self._price, 0.0

    def observe(self, row: int, drafted: int, accepted: int, nodes: int = 0) -> None:
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

    What a level is worth follows from the row's record and from the acceptance by position that all rows share
    (acceptance.py); what it costs, from measured passes and proposals. A depth is kept for COOLDOWN rounds, and then
    left only for one that is clearly better, so that a load that comes and goes does not make it swing. Rows whose best
    depth is 0 are tried again now and then, ever more seldom while that fails, unless the pass is so full that even
    perfect drafts would not pay.
    """

    def __init__(self, *, gamma: int, nodes: int, costs: PassCosts, drafting: DraftCosts | None = None) -> None:
        self._fixed = FixedLength(gamma=gamma, nodes=nodes)
        self._costs = costs
        self._drafting = drafting or DraftCosts()
        self._profile = Profile()
        self._rows: dict[int, _Row] = {}

    def choose(self, row: int, gamma: int | None, cap: int, others: Others = ALONE) -> Length:
        """Return the depth with the best expected tokens per second, 0 if plain decoding is best."""
        widest = self._fixed.choose(row, gamma, cap)
        if widest.depth == 0:
            return widest
        state = self._row(row)
        rates = self._rates(state.record.survival(self._profile, widest.depth), widest, others)
        depth = widest.depth if rates is None else state.settle(rates)
        acceptance = state.record.acceptance
        if depth:
            return Length(depth=depth, nodes=_num_nodes(widest, depth), reason=f"adaptive: acceptance {acceptance:.2f}")
        if state.is_due_for_probe() and self._could_pay(widest, others):
            return Length(depth=widest.depth, nodes=widest.nodes, reason="probe: drafting was off for this row")
        reason = f"plain: acceptance {acceptance:.2f} does not pay"
        return Length(depth=0, nodes=0, reason=reason, hindrance=Hindrance.UNPROFITABLE)

    def observe(self, row: int, drafted: int, accepted: int, nodes: int = 0) -> None:  # noqa: ARG002 - port
        """Count the tested levels: the accepted ones, and the first refused one."""
        if drafted:
            tested = min(accepted + 1, drafted)
            state = self._row(row)
            state.record.count(tested=tested, stood=accepted)
            state.note_probe()
            self._profile.count(tested=tested, stood=accepted)

    def prices(self, num_tokens: int) -> tuple[float, float]:
        """Return the measured prices."""
        return self._costs.node_cost(num_tokens), self._costs.draft_cost(num_tokens)

    def forget(self, row: int) -> None:
        """Drop the row's record."""
        self._rows.pop(row, None)

    def _row(self, row: int) -> _Row:
        if row not in self._rows:
            self._rows[row] = _Row(RowRecord(self._profile.mean))
        return self._rows[row]

    def _could_pay(self, widest: Length, others: Others) -> bool:
        # What drafting takes is not asked here: while nobody drafts nobody would learn that it takes less by now.
        rates = self._rates(cumulative([1.0] * widest.depth), widest, others, is_drafting_free=True)
        return rates is None or max(rates) > rates[0]

    def _rates(
        self, survival: list[float], widest: Length, others: Others, *, is_drafting_free: bool = False
    ) -> list[float] | None:
        """Return tokens per plain pass' time by depth from 0, which gets an edge; None before costs are known."""
        fed = others.tokens + 1
        plain = self._costs.seconds(fed)
        if plain is None:
            return None
        expected = others.rows + 1.0
        rates = [others.rows + MIN_GAIN]
        for depth, chance in enumerate(survival, start=1):
            expected += chance
            # All rows draft in one go, so each bears its part of that.
            drafting = 0.0 if is_drafting_free else self._drafting.seconds(depth) / (others.rows + 1)
            seconds = (self._costs.seconds(fed + _num_nodes(widest, depth)) or plain) + drafting
            rates.append(expected * plain / seconds)
        return rates


def _num_nodes(widest: Length, depth: int) -> int:
    """Return the nodes that a shallower draft of the same width has."""
    return max(depth, widest.nodes * depth // widest.depth)


class _Row:
    """What is known of a row, and the depth it uses."""

    def __init__(self, record: RowRecord) -> None:
        self.record = record
        self._depth: int | None = None
        self._age = 0
        self._plain_rounds = 0
        self._is_probing = False
        self._num_failed = 0

    def settle(self, rates: list[float]) -> int:
        """Return the depth to use: the one in use, or the best one if that is clearly better."""
        best = max(range(len(rates)), key=rates.__getitem__)
        self._age += 1
        kept = self._depth
        if kept is not None and kept < len(rates) and self._holds(rates[best], rates[kept]):
            return kept
        if best != kept:
            self._age = 0
        self._depth = best
        if best:
            self._num_failed = 0
        return best

    def _holds(self, best: float, kept: float) -> bool:
        return self._age <= COOLDOWN or best <= kept + SWITCH_GAIN

    def is_due_for_probe(self) -> bool:
        self._plain_rounds = (self._plain_rounds + 1) % (PROBE_EVERY << min(self._num_failed, MOST_DOUBLINGS))
        self._is_probing = self._plain_rounds == 0
        return self._is_probing

    def note_probe(self) -> None:
        """Count a probe as failed until the depth says otherwise."""
        self._num_failed += self._is_probing
        self._is_probing = False
