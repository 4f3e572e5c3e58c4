"""The kill switch: rows whose drafts cost more than they bring decode plainly, and are tried again later.

A drafter that weighs its nodes decides by what it believes. This ledger holds what came of it: accepted tokens against
the seconds that nodes added to passes and that drafting took, in tokens that plain decoding would have made of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.core.records import Hindrance
from paradraft.scheduling.costs import DraftCosts, PassCosts
from paradraft.scheduling.length import ALONE, Length, LengthPolicy, Others

MEMORY = 0.95  # weight of a row's past per round, rounds at rest included
GOOD_WILL = 1.0  # tokens that a new row's drafts may lose
MOST_CREDIT = 5.0  # tokens that drafts may lose after a good time
REST = 16  # rounds a row stays plain; twice as many after each trial that fails
LONGEST_REST = 256
TRIAL = 2  # rounds of a trial


class BreakEven:
    """Hands on another policy's lengths to rows whose drafts pay."""

    def __init__(self, inner: LengthPolicy, *, costs: PassCosts, drafting: DraftCosts) -> None:
        self._inner = inner
        self._costs = costs
        self._drafting = drafting
        self._rows: dict[int, _Ledger] = {}
        self._all = _Ledger()

    def choose(self, row: int, gamma: int | None, cap: int, others: Others = ALONE) -> Length:
        """Return the inner length, or none for a row at rest."""
        length = self._inner.choose(row, gamma, cap, others)
        ledger = self._ledger(row)
        ledger.asked = None
        if length.depth == 0:
            return length
        if ledger.rests():
            reason = f"plain: drafts lose {-ledger.balance:.1f} tokens"
            return Length(depth=0, nodes=0, reason=reason, hindrance=Hindrance.LOSING)
        ledger.asked = (length.depth, others)
        return length

    def prices(self, num_tokens: int) -> tuple[float, float]:
        """Return the inner prices."""
        return self._inner.prices(num_tokens)

    def observe(self, row: int, drafted: int, accepted: int, nodes: int = 0) -> None:
        """Book what the round brought and what it cost; a round without nodes costs the drafter's time."""
        self._inner.observe(row, drafted, accepted, nodes)
        ledger = self._ledger(row)
        if ledger.asked is not None:
            spent = self._spent(*ledger.asked, max(drafted, nodes))
            ledger.asked = None
            ledger.book(accepted, spent)
            self._all.book(accepted, spent)

    def forget(self, row: int) -> None:
        """Drop the row's ledger."""
        self._inner.forget(row)
        self._rows.pop(row, None)

    def _ledger(self, row: int) -> _Ledger:
        """Return the row's ledger; where drafts lose everywhere, a new one has less to lose."""
        if row not in self._rows:
            self._rows[row] = _Ledger(balance=GOOD_WILL if self._all.balance >= 0.0 else 0.0)
        return self._rows[row]

    def _spent(self, depth: int, others: Others, nodes: int) -> float:
        """Return what a draft cost in tokens: for its seconds, every row of the batch waits."""
        fed = others.tokens + 1
        plain = self._costs.seconds(fed)
        if plain is None:
            return 0.0
        drafting = self._drafting.seconds(depth) / (others.rows + 1)
        longer = (self._costs.seconds(fed + nodes) or plain) - plain if nodes else 0.0
        return (others.rows + 1) * (drafting + max(longer, 0.0)) / plain


@dataclass(slots=True)
class _Ledger:
    """Tokens gained less tokens spent, smoothed."""

    balance: float = GOOD_WILL
    asked: tuple[int, Others] | None = None  # depth and company of the draft that is under way
    _rest: int = REST
    _left: int = 0  # rounds to rest
    _trial: int = 0  # rounds of a trial to come

    def book(self, gained: float, spent: float) -> None:
        self.balance = min(MEMORY * self.balance + gained - spent, MOST_CREDIT)
        if self._trial:
            self._trial -= 1
        if self.balance >= 0.0:
            self._rest = REST
            self._trial = 0
        elif not self._trial:
            self._left = self._rest
            self._rest = min(2 * self._rest, LONGEST_REST)

    def rests(self) -> bool:
        """Whether the row stays plain in this round."""
        if not self._left:
            return False
        self._left -= 1
        self.balance *= MEMORY
        if not self._left:
            self._trial = TRIAL
        return True
