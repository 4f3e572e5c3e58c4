"""What a proposal must be before anyone uses it: within budget, well-formed, finite."""

from __future__ import annotations

import numpy as np

from paradraft.core.arrays import IntArray
from paradraft.core.errors import ProtocolError
from paradraft.core.records import Batch, DraftLaws, Plan, Proposal

MAX_SUM_ERROR = 1e-3  # a law's probabilities are rescaled to 1 where they are used, so only gross errors count


class BadProposal(ProtocolError):
    """A drafter's output cannot be used; `kind` is a stable short name to count it under."""

    def __init__(self, kind: str, problem: str) -> None:
        """Name the kind of fault and describe it."""
        super().__init__(problem, remedy="The drafts of this step are dropped; repair the drafter.")
        self.kind = kind

    def __reduce__(self) -> tuple[object, ...]:
        """Keep copies faithful to both arguments."""
        return (type(self), (self.kind, self.problem))


def check_proposal(proposal: Proposal, batch: Batch, plan: Plan, vocab_size: int) -> None:
    """Raise BadProposal unless the proposal keeps every promise of core.records.Proposal and the plan's budgets."""
    if not isinstance(proposal, Proposal):
        raise BadProposal("type", f"A drafter returned {type(proposal).__name__}, not a Proposal.")
    _check_shapes(proposal, batch)
    if not len(proposal.tokens):
        return
    _check_rows(proposal, plan, vocab_size)
    if proposal.laws is not None:
        _check_laws(proposal.laws, proposal.tokens, vocab_size)
    if proposal.confidence is not None:
        _check_confidence(proposal)


def _check_shapes(proposal: Proposal, batch: Batch) -> None:
    size = -1
    for name, kind in (("tokens", "i"), ("parents", "i"), ("depths", "i"), ("sources", "u"), ("starts", "i")):
        array = getattr(proposal, name)
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind != kind:
            raise BadProposal("shape", f"Proposal.{name} is not a vector of integers.")
        if name == "tokens":
            size = len(array)
        elif name != "starts" and len(array) != size:
            raise BadProposal("shape", f"Proposal.{name} has {len(array)} entries for {size} nodes.")
    starts: list[int] = proposal.starts.tolist()
    if len(starts) != batch.num_rows + 1 or starts[0] != 0 or starts[-1] != size or sorted(starts) != starts:
        raise BadProposal("shape", f"Row starts {starts} do not cover {size} nodes of {batch.num_rows} rows.")


def _check_rows(proposal: Proposal, plan: Plan, vocab_size: int) -> None:
    """Check ids, and each row's tree and budget. Lists, because drafts are small: array calls would take longer."""
    starts: list[int] = proposal.starts.tolist()
    tokens, parents, depths = proposal.tokens.tolist(), proposal.parents.tolist(), proposal.depths.tolist()
    if min(tokens) < 0 or max(tokens) >= vocab_size:
        raise BadProposal(
            "ids", f"Draft ids reach from {min(tokens)} to {max(tokens)} in a vocabulary of {vocab_size}."
        )
    for row, (nodes, depth) in enumerate(zip(plan.num_nodes.tolist(), plan.depth.tolist(), strict=True)):
        low, high = starts[row], starts[row + 1]
        if high - low > nodes or max(depths[low:high], default=0) > depth:
            raise BadProposal("budget", f"Row {row} got {high - low} nodes where {nodes}, {depth} deep, are allowed.")
        _check_tree(tokens[low:high], parents[low:high], depths[low:high])


def _check_tree(tokens: list[int], parents: list[int], depths: list[int]) -> None:
    for node, (parent, depth) in enumerate(zip(parents, depths, strict=True)):
        if not -1 <= parent < node:
            raise BadProposal("tree", f"Draft node {node} has parent {parent}: parents come first.")
        if depth != (depths[parent] + 1 if parent >= 0 else 1):
            raise BadProposal("tree", f"Draft node {node} has depth {depth}, which is not its parent's plus one.")
    if len(set(zip(parents, tokens, strict=True))) != len(tokens):
        raise BadProposal("tree", "Two children of one node hold the same token.")


def _check_laws(laws: DraftLaws, tokens: IntArray, vocab_size: int) -> None:
    sizes = np.diff(laws.starts)
    if len(laws.of) != len(tokens) or len(laws.ids) != len(laws.probabilities) or laws.starts[0] != 0:
        raise BadProposal("laws", "The draft laws do not match the nodes in shape.")
    if (sizes < 1).any() or laws.starts[-1] != len(laws.ids):
        raise BadProposal("laws", "The draft laws' starts do not cover their entries.")
    if len(laws.of) and (laws.of.min() < -1 or laws.of.max() >= len(sizes)):
        raise BadProposal("laws", "A node names a draft law that is not there.")
    if len(laws.ids) and (laws.ids.min() < 0 or laws.ids.max() >= vocab_size):
        raise BadProposal("ids", "A draft law holds ids outside the vocabulary.")
    _check_probabilities(laws)
    _check_drawn(laws, tokens)


def _check_probabilities(laws: DraftLaws) -> None:
    if not len(laws.probabilities):
        return
    if not np.isfinite(laws.probabilities).all() or (laws.probabilities < 0).any():
        raise BadProposal("nan", "A draft law holds NaN, infinity or a negative probability.")
    sums = np.add.reduceat(laws.probabilities, laws.starts[:-1])
    if (np.abs(sums - 1.0) > MAX_SUM_ERROR).any():
        raise BadProposal("laws", f"A draft law sums to {sums[np.abs(sums - 1.0).argmax()]:.4f}.")


def _check_drawn(laws: DraftLaws, tokens: IntArray) -> None:
    """Check that no law names an id twice and that every node could have been drawn from the law it names."""
    number = np.repeat(np.arange(len(laws.starts) - 1, dtype=np.int64), np.diff(laws.starts))
    keys = (number << 32) + laws.ids
    drawn = laws.of >= 0
    if len(np.unique(keys)) != len(keys):
        raise BadProposal("laws", "A draft law names an id twice.")
    wanted = (laws.of[drawn].astype(np.int64) << 32) + tokens[drawn]
    if not np.isin(wanted, keys[laws.probabilities > 0]).all():
        raise BadProposal("laws", "A node has probability 0 in the law that it names.")


def _check_confidence(proposal: Proposal) -> None:
    confidence = proposal.confidence
    if confidence is None or confidence.shape != proposal.tokens.shape:
        raise BadProposal("shape", "Proposal.confidence does not have one entry per node.")
    # Written so that NaN fails too.
    if not all(0.0 <= value <= 1.0 for value in confidence.tolist()):
        raise BadProposal("nan", "Proposal.confidence holds values outside 0 .. 1.")
