"""Runs what is missing of a matrix, each case with a drafter that has learned nothing from the cases before.

A drafter that had seen the answers would only have to repeat them, and hardly a draft would be rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import fmean

from paradraft.lab.exactness.cases import PLAIN, Case, reference_case
from paradraft.lab.exactness.check import CaseResult, Check, Reference, decode_reference, run_case
from paradraft.lab.exactness.ledger import Ledger
from paradraft.lab.ports import Plain, Speaker


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """Where a run stands."""

    done: int
    total: int
    doing: str
    seconds_left: float | None  # None until a case has told how long cases take


Watch = Callable[[Standing], None]
OpenSpeaker = Callable[[str], AbstractContextManager[Speaker]]


def unwatched(standing: Standing) -> None:
    """Ignore it."""


@dataclass(frozen=True, kw_only=True)
class MatrixRun:
    """The cases of one process, with what answers them. Each is in the ledger as soon as it is done."""

    cases: Sequence[Case]
    check: Check
    plain: Plain
    open_speaker: OpenSpeaker  # by the name of a case that is not plain
    ledger: Ledger
    watch: Watch = unwatched

    def run(self) -> list[CaseResult]:
        """Do the cases that the ledger lacks, and return the results of all in their order."""
        for case in self._pending():
            reference = self._reference(case.temperature)
            self._tell(str(case))
            with nullcontext(self.plain) if case.name == PLAIN else self.open_speaker(case.name) as speaker:
                self.ledger.add(run_case(speaker, self.plain, case, self.check, reference))
        self._tell("done")
        return [self.ledger.results[case] for case in self.cases]

    def _reference(self, temperature: float) -> Reference:
        known = self.ledger.references
        if temperature not in known:
            case = reference_case(temperature)
            self._tell(f"reference: {case}")
            self.ledger.add_reference(decode_reference(self.plain, case, self.check))
        return known[temperature]

    def _pending(self) -> list[Case]:
        return [case for case in self.cases if case not in self.ledger.results]

    def _tell(self, doing: str) -> None:
        pending = self._pending()
        lacking = {case.temperature for case in pending} - self.ledger.references.keys()
        left = self._seconds([*pending, *map(reference_case, lacking)])
        total = len(self.cases)
        self.watch(Standing(done=total - len(pending), total=total, doing=doing, seconds_left=left))

    def _seconds(self, cases: Sequence[Case]) -> float | None:
        """Return what the cases will take, going by those done alone or in batches."""
        took = [(reference_case(known.temperature).rows, known.seconds) for known in self.ledger.references.values()]
        took += [(result.case.rows, result.seconds) for result in self.ledger.results.values()]
        if not took:
            return None
        overall = fmean(seconds for _, seconds in took)
        by_rows = {rows: fmean(seconds for number, seconds in took if number == rows) for rows, _ in took}
        return sum(by_rows.get(case.rows, overall) for case in cases)
