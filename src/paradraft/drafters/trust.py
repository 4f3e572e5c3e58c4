"""How far a row's acceptance estimates can be believed, learned from what became of them."""

from __future__ import annotations

from paradraft.core.records import Proposal, Verdict

PRIOR = 3.0  # tested levels of good will
FORGETTING = 0.97  # weight of the past per tested level
HIGHEST = 1.5  # below, the prior bounds it
CEILING = 0.98  # no level is ever taken for certain


class Trust:
    """The ratio of accepted to expected levels of one row, 1.0 at first; estimates are multiplied by it."""

    __slots__ = ("_accepted", "_expected", "_used")

    def __init__(self) -> None:
        self._accepted = self._expected = 0.0
        self._used = 1.0

    def use(self) -> float:
        """Return the factor for the estimates of the next proposal."""
        ratio = (self._accepted + PRIOR) / (self._expected + PRIOR)
        self._used = min(ratio, HIGHEST)
        return self._used

    def learn(self, proposal: Proposal, verdict: Verdict, index: int) -> None:
        """Compare the estimates for the tested nodes, the children of each node the walk came to, with what stood."""
        low, high = int(proposal.starts[index]), int(proposal.starts[index + 1])
        if low == high or proposal.confidence is None:
            return
        path: list[int] = verdict.path_of(index).tolist()
        walk = [-1, *path]
        expected = dict.fromkeys(walk, 0.0)
        confidence: list[float] = proposal.confidence[low:high].tolist()
        for node, parent in enumerate(proposal.parents[low:high].tolist()):
            if parent in expected:
                above = 1.0 if parent < 0 else confidence[parent]
                expected[parent] += confidence[node] / above if above > 0.0 else 0.0
        for step, parent in enumerate(walk):
            if expected[parent] > 0.0:
                self._note(expected[parent] / self._used, stood=step < len(path))

    def _note(self, expected: float, *, stood: bool) -> None:
        self._expected = self._expected * FORGETTING + expected
        self._accepted = self._accepted * FORGETTING + stood
