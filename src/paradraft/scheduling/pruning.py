"""Drafts that a row's grammar forbids are left out of the pass: they could never stand.

Only where nothing was drawn from a law. A sampling rule learns from a drawn node even by refusing it (what the refusal
leaves of p is drawn from next), so leaving such a node out would bend the output's law.
"""

from __future__ import annotations

from paradraft.core.arrays import IntArray
from paradraft.core.grammar import Grammars
from paradraft.core.ports import Drafter, Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.scheduling.verification import cut


class PrunedDrafter:
    """A drafter without the nodes that grammars forbid; it observes what was verified.

    `num_pruned` counts these nodes and those behind them.
    """

    def __init__(self, inner: Drafter, grammars: Grammars) -> None:
        self.needs = inner.needs
        self.num_pruned = 0
        self._inner = inner
        self._grammars = grammars

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Return the inner proposal, cut where a grammar forbids a node."""
        proposal = self._inner.propose(batch, plan)
        if proposal.laws is not None or not len(proposal.tokens):
            return proposal
        if all(sampling.params.grammar is None for sampling in batch.sampling):
            return proposal
        kept = [node for index in range(batch.num_rows) for node in self._kept(batch, proposal, index)]
        num_pruned = len(proposal.tokens) - len(kept)
        self.num_pruned += num_pruned
        return cut(proposal, kept) if num_pruned else proposal

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        """Pass the step on."""
        self._inner.observe(batch, proposal, scores, verdict)

    def forget(self, rows: IntArray) -> None:
        """Pass the rows on."""
        self._inner.forget(rows)

    def _kept(self, batch: Batch, proposal: Proposal, index: int) -> list[int]:
        """Return the nodes of a row that its grammar lets through, in order."""
        low, high = int(proposal.starts[index]), int(proposal.starts[index + 1])
        sampling = batch.sampling[index]
        if sampling.params.grammar is None or low == high:
            return list(range(low, high))
        matcher = self._grammars.matcher(int(batch.rows[index]), sampling.params.grammar)
        output = batch.known(index)[sampling.prompt_len :]
        tokens: list[int] = proposal.tokens[low:high].tolist()
        kept: set[int] = set()
        for path in _paths(proposal.parents[low:high].tolist()):
            count = matcher.count_allowed(output, [tokens[node] for node in path])
            kept.update(path[:count])
        return [low + node for node in sorted(kept)]


def _paths(parents: list[int]) -> list[list[int]]:
    """Return the path from the first level down to each leaf."""
    paths = []
    for leaf in set(range(len(parents))).difference(parents):
        path, node = [], leaf
        while node >= 0:
            path.append(node)
            node = parents[node]
        paths.append(path[::-1])
    return paths
