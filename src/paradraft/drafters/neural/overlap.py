"""How likely a draw from a law is to stand, known before it is drawn: learned by how sure the law is.

A draw from q stands with the overlap of q and the target's law. Nobody knows the latter, but where q is sure of one
token the two mostly agree, so draws are counted by the largest probability of their law. The token itself must have no
say (docs/exactness.md, leaving drafts out), which is why its own probability is not the measure.
"""

from __future__ import annotations

import numpy as np

from paradraft.core.records import Proposal, Verdict
from paradraft.drafters.candidates import DraftLaw

BINS = 10  # of the largest probability
PRIOR = 4.0  # draws of good will in each, that stand as often as the law's best token would
FORGETTING = 0.99  # weight of a bin's past per draw


class Overlap:
    """Counts draws and those that stood."""

    def __init__(self) -> None:
        self._drawn = [0.0] * BINS
        self._stood = [0.0] * BINS

    def chance(self, law: DraftLaw) -> float:
        """Return the chance that a draw from a law, the most probable token first, stands if its parent does."""
        best = float(law.probabilities[0])
        at = _bin_of(best)
        return (self._stood[at] + PRIOR * best) / (self._drawn[at] + PRIOR)

    def learn(self, proposal: Proposal, verdict: Verdict, index: int) -> None:
        """Count the tested nodes of a row's chain: those that stood, and the first that did not."""
        laws, low, high = proposal.laws, int(proposal.starts[index]), int(proposal.starts[index + 1])
        if laws is None:
            return
        num_stood = len(verdict.path_of(index))
        for level, law in enumerate(laws.of[low:high].tolist()[: num_stood + 1]):
            if law >= 0:
                best = float(np.max(laws.probabilities[int(laws.starts[law]) : int(laws.starts[law + 1])]))
                self._count(_bin_of(best), stood=level < num_stood)

    def _count(self, at: int, *, stood: bool) -> None:
        self._drawn[at] = FORGETTING * self._drawn[at] + 1.0
        self._stood[at] = FORGETTING * self._stood[at] + stood


def _bin_of(best: float) -> int:
    return min(int(best * BINS), BINS - 1)
