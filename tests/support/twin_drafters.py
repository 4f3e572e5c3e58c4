"""A native drafter beside its twin in Python: both see the same steps and must propose the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.records import Batch, Plan, Proposal
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.guesses import Guesses, GuessingDrafter
from paradraft.drafters.merged import MergedDrafter
from paradraft.drafters.native_merged import Lookups, NativeMergedDrafter
from paradraft.drafters.suffix import SuffixDrafter
from paradraft.drafters.table.drafter import TableDrafter
from paradraft.drafters.table.recent import RecentDrafter
from support.drafting import RowText, verdict_of

WIDTH = 8


def twins(
    lookups: Lookups, *, vocab_size: int, node_cost: float | None = None
) -> tuple[MergedDrafter, NativeMergedDrafter]:
    """Return a merged tree in Python and one in the library, of the same sources."""
    assert lookups.table is not None
    sources: dict[str, GuessingDrafter] = {
        "suffix": SuffixDrafter(
            shared_tokens=lookups.shared_tokens, max_row_tokens=lookups.max_row_tokens, is_coupled=True
        ),
        "recent": RecentDrafter(max_row_tokens=lookups.max_counted_tokens, is_coupled=True),
        "table": TableDrafter(lookups.table, max_learned=lookups.max_learned, is_coupled=True),
    }
    options = {"vocab_size": vocab_size, "width": WIDTH, "node_cost": node_cost, "is_coupled": True}
    native = NativeMergedDrafter(
        replace(lookups, table=lookups.table if "table" in lookups.kinds else None),
        **options,  # type: ignore[arg-type]
    )
    return MergedDrafter([sources[kind] for kind in lookups.kinds], **options), native  # type: ignore[arg-type]


@dataclass
class Speaker:
    """A row and what its target says next."""

    row: int
    text: Sequence[int]
    at: int  # tokens known
    tenant: str = ""
    temperature: float = 0.0
    seed: int = 7
    speculate: bool = True
    prompt_len: int = field(init=False)

    def __post_init__(self) -> None:
        self.prompt_len = self.at

    def known(self, num_pending: int = 1) -> RowText:
        params = SamplingParams(temperature=self.temperature, speculate=self.speculate)
        known = self.text[: self.at]
        return RowText(
            tokens=known,
            row=self.row,
            prompt_len=self.prompt_len,
            cached=max(len(known) - 2, 0),
            num_pending=min(num_pending, len(known)),
            params=params,
            seed=self.seed,
            tenant=self.tenant,
        )


class Twins:
    """Both drafters, step by step."""

    def __init__(self, lookups: Lookups, *, vocab_size: int, node_cost: float | None = None) -> None:
        self.python, self.native = twins(lookups, vocab_size=vocab_size, node_cost=node_cost)
        self.num_nodes = 0

    def step(self, batch: Batch, plan: Plan, speakers: Sequence[Speaker]) -> None:
        """Propose with both, require the same, let the target speak, and go on."""
        proposal = self.python.propose(batch, plan)
        require_same(proposal, self.native.propose(batch, plan))
        self.num_nodes += len(proposal.tokens)
        outcomes = [agreed(proposal, index, speaker.text[speaker.at :]) for index, speaker in enumerate(speakers)]
        verdict = verdict_of(*outcomes)
        for drafter in (self.python, self.native):
            drafter.observe(batch, proposal, None, verdict)  # type: ignore[arg-type]
        for speaker, (_, tokens) in zip(speakers, outcomes, strict=True):
            speaker.at += len(tokens)

    def forget(self, *rows: int) -> None:
        """Forget rows in both."""
        for drafter in (self.python, self.native):
            drafter.forget(ints(rows))

    def require_same_weights(self) -> None:
        """Require that both blends have learned the same."""
        for is_warm, pool in self.python.pools.items():
            found = self.native.weights(is_warm=is_warm)
            np.testing.assert_allclose(values_of(found), values_of(pool.weights), rtol=0, atol=1e-9)


def values_of(weights: object) -> list[float]:
    """Return all numbers of a blend's weights."""
    return [
        *[getattr(source, slot) for source in weights.sources for slot in source.__slots__],  # type: ignore[attr-defined]
        *weights.depth,  # type: ignore[attr-defined]
        weights.noise,  # type: ignore[attr-defined]
    ]


def require_same(expected: Proposal, found: Proposal) -> None:
    """Require the same trees from the same sources, with the same confidence."""
    for name in ("starts", "tokens", "parents", "depths", "sources"):
        one, other = getattr(expected, name), getattr(found, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(other, one, err_msg=name)
    assert expected.confidence is not None
    np.testing.assert_allclose(found.confidence, expected.confidence, rtol=3e-7)  # float32


def _close(share: float) -> object:
    return pytest.approx(share, rel=1e-9)


def require_same_guesses(expected: Guesses, found: Guesses, path: Sequence[int]) -> None:
    """Require the same answers along a path, down to the doubles."""
    one, other = expected.root(), found.root()
    for token in path:
        shares = expected.shares(one)
        assert found.shares(other) == {word: _close(share) for word, share in shares.items()}
        for word in [*shares, token]:
            assert found.source_of(other, word) == expected.source_of(one, word)
        one, other = expected.descend(one, token), found.descend(other, token)


def agreed(proposal: Proposal, index: int, truth: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the accepted path and the committed tokens where the target says `truth`."""
    low, high = int(proposal.starts[index]), int(proposal.starts[index + 1])
    nodes = {
        (parent, token): node
        for node, (parent, token) in enumerate(
            zip(proposal.parents[low:high].tolist(), proposal.tokens[low:high].tolist(), strict=True)
        )
    }
    path: list[int] = []
    for token in truth[:-1]:
        node = nodes.get((path[-1] if path else -1, token))
        if node is None:
            break
        path.append(node)
    return path, list(truth[: len(path) + 1])
