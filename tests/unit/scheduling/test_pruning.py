"""Nodes that a grammar forbids are not verified."""

from __future__ import annotations

from paradraft.core.arrays import ints
from paradraft.core.grammar import Grammar
from paradraft.core.ports import Needs
from paradraft.core.records import Batch, Plan, Proposal
from paradraft.core.sampling import SamplingParams
from paradraft.scheduling.pruning import PrunedDrafter
from paradraft.verify.law import Law
from support.grammars import FunctionGrammars
from support.steps import Draft, batch_of, proposal_of, sampling_of

FREE = sampling_of(SamplingParams(), prompt_len=1)
HELD = sampling_of(SamplingParams(grammar=Grammar.regex("x")), prompt_len=1)


class Fixed:
    """Proposes what it is given."""

    needs = Needs(sources=("fixed",))

    def __init__(self, *drafts: Draft) -> None:
        self.proposal = proposal_of(drafts)

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        return self.proposal


def rising(output: tuple[int, ...]) -> list[int]:
    """Each token is larger than the one before."""
    return list(range(output[-1] + 1 if output else 0, 10))


def pruned(*drafts: Draft, sampling: list[object]) -> tuple[Proposal, int]:
    drafter = PrunedDrafter(Fixed(*drafts), FunctionGrammars(rising, 10))  # type: ignore[arg-type]
    batch = batch_of([[0, 4]] * len(drafts), sampling)  # type: ignore[arg-type]
    return drafter.propose(batch, None), drafter.num_pruned  # type: ignore[arg-type]


def test_a_tree_loses_forbidden_nodes_and_what_hangs_on_them() -> None:
    draft = Draft(tokens=[5, 3, 7, 5, 6, 9], parents=[-1, -1, 0, 0, 1, 2], laws=[None] * 6)
    proposal, num_pruned = pruned(draft, sampling=[HELD])
    assert proposal.tokens.tolist() == [5, 7, 9]
    assert proposal.parents.tolist() == [-1, 0, 1]
    assert proposal.depths.tolist() == [1, 2, 3]
    assert num_pruned == 3


def test_rows_without_a_grammar_keep_everything() -> None:
    draft = Draft(tokens=[3, 9, 2], parents=[-1, 0, 1], laws=[None] * 3)
    proposal, num_pruned = pruned(draft, draft, Draft(), sampling=[FREE, HELD, HELD])
    assert proposal.starts.tolist() == [0, 3, 3, 3]
    assert num_pruned == 3
    assert pruned(draft, sampling=[FREE])[1] == 0


def test_drawn_nodes_stay_because_their_refusal_says_something() -> None:
    draft = Draft(tokens=[3], parents=[-1], laws=[Law.point(3)])
    proposal, num_pruned = pruned(draft, sampling=[HELD])
    assert proposal.tokens.tolist() == [3]
    assert num_pruned == 0


def test_a_step_without_drafts_passes() -> None:
    assert pruned(Draft(), sampling=[HELD])[0].tokens.tolist() == ints([]).tolist()
