from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints, starts_of
from paradraft.core.records import Proposal
from paradraft.scheduling.survival import families_of, scaled, survival, survival_of


def proposal_of(parents: list[list[int]], confidence: list[list[float]]) -> Proposal:
    depths: list[list[int]] = []
    for row in parents:
        found: list[int] = []
        for parent in row:
            found.append(1 if parent < 0 else found[parent] + 1)
        depths.append(found)
    flat = [value for row in confidence for value in row]
    return Proposal(
        starts=starts_of([len(row) for row in parents]),
        tokens=ints(range(len(flat))),
        parents=ints([value for row in parents for value in row]),
        depths=ints([value for row in depths for value in row]),
        sources=np.ones(len(flat), dtype=np.uint32),
        confidence=np.array(flat, dtype=np.float32),
    )


def test_without_temperatures_survival_is_the_drafters_confidence() -> None:
    confidence = [[0.8, 0.1, 0.4], [0.5, 0.25]]
    nodes = families_of(proposal_of([[-1, -1, 0], [-1, 0]], confidence))
    assert survival(nodes, ()) == pytest.approx([0.8, 0.1, 0.4, 0.5, 0.25], abs=1e-5)
    assert nodes.chances == pytest.approx([0.8, 0.1, 0.5, 0.5, 0.5])


def test_rows_are_families_apart() -> None:
    """Two rows that are each sure of their first node do not crowd each other out."""
    nodes = families_of(proposal_of([[-1], [-1]], [[0.9], [0.9]]))
    assert survival(nodes, (2.0,)) == pytest.approx([0.75, 0.75])


def test_a_single_child_is_scaled_as_a_logit() -> None:
    for chance, temperature in ((0.9, 2.0), (0.3, 0.5), (0.7, 1.0)):
        logit = np.log(chance / (1 - chance)) / temperature
        one = scaled(np.array([chance]), np.array([0]), temperature)
        assert one == pytest.approx([1 / (1 + np.exp(-logit))], rel=1e-4)


def test_heat_flattens_siblings_without_giving_them_more_than_one() -> None:
    hot = scaled(np.array([0.6, 0.3, 0.1]), np.array([0, 0, 0]), 4.0)
    assert hot.sum() <= 1.0
    assert hot[0] < 0.6
    assert (np.diff(hot) < 0).all()


@pytest.mark.parametrize("temperatures", [(), (0.3,), (3.0, 0.2, 5.0)])
def test_survival_never_rises_below_a_parent(temperatures: tuple[float, ...]) -> None:
    rng = np.random.default_rng(0)
    parents = [-1, -1, 0, 0, 1, 2, 5]
    confidence: list[float] = []
    for parent in parents:
        confidence.append(float(rng.uniform(0, 0.5)) * (1.0 if parent < 0 else confidence[parent]))
    found = survival(families_of(proposal_of([parents], [confidence])), temperatures)
    assert all(found[node] <= (1.0 if parent < 0 else found[parent]) for node, parent in enumerate(parents))


def test_chances_that_cannot_be_are_made_usable() -> None:
    """A drafter may claim a child likelier than its parent, certainty, or nothing at all."""
    found = survival(families_of(proposal_of([[-1, 0, 1], [-1, 0]], [[0.5, 0.9, 1.0], [0.0, 0.0]])), (1.0,))
    assert np.isfinite(found).all()
    assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.parametrize("temperatures", [(), (2.0, 0.5), (0.3,)])
def test_both_ways_to_reckon_agree(temperatures: tuple[float, ...]) -> None:
    proposal = proposal_of([[-1, -1, 0, 0, 2], [], [-1, 0, 1]], [[0.5, 0.3, 0.3, 0.1, 0.29], [], [0.9, 0.95, 0.0]])
    assert survival_of(proposal, temperatures) == pytest.approx(survival(families_of(proposal), temperatures))
