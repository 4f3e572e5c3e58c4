"""Drafters that force an outcome: always right, always wrong, random trees, liars."""

from __future__ import annotations

import numpy as np

from paradraft.core.arrays import IntArray, ints, starts_of
from paradraft.core.ports import Needs, Scores
from paradraft.core.records import Batch, DraftLaws, Plan, Proposal, Verdict
from support.stub_target import Law


class FakeDrafter:
    """Proposes nothing; base of the fakes."""

    needs = Needs(sources=("fake",))

    def __init__(self) -> None:
        self.forgotten: list[int] = []
        self.num_drafted = 0
        self.seen: dict[int, list[int]] = {}  # row -> tokens of all verdicts

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        paths = [
            ints(self.path(batch.known(index).tolist(), int(plan.depth[index]))) if plan.num_nodes[index] else ints([])
            for index in range(batch.num_rows)
        ]
        self.num_drafted += sum(len(path) for path in paths)
        return Proposal.chains(paths)

    def path(self, known: list[int], depth: int) -> list[int]:
        return []

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        for index, row in enumerate(batch.rows.tolist()):
            self.seen.setdefault(row, []).extend(verdict.tokens_of(index).tolist())

    def forget(self, rows: IntArray) -> None:
        self.forgotten.extend(rows.tolist())


class OracleDrafter(FakeDrafter):
    """Knows the target's law: greedy drafts always stand."""

    def __init__(self, law: Law) -> None:
        super().__init__()
        self._law = law

    def path(self, known: list[int], depth: int) -> list[int]:
        known = list(known)
        for _ in range(depth):
            known.append(int(self._law(tuple(known)).argmax()))
        return known[len(known) - depth :] if depth else []


class WrongDrafter(OracleDrafter):
    """Knows the target's law and never proposes what it wants."""

    def __init__(self, law: Law, vocab_size: int) -> None:
        super().__init__(law)
        self._vocab_size = vocab_size

    def path(self, known: list[int], depth: int) -> list[int]:
        return [(token + 1) % self._vocab_size for token in super().path(known, depth)]


class HalfRightDrafter(OracleDrafter):
    """Right for as many levels as a hash of the prefix says, wrong behind."""

    def __init__(self, law: Law, vocab_size: int) -> None:
        super().__init__(law)
        self._vocab_size = vocab_size

    def path(self, known: list[int], depth: int) -> list[int]:
        right = super().path(known, depth)
        turn = sum(known) % (depth + 1)
        return [token if at < turn else (token + 1) % self._vocab_size for at, token in enumerate(right)]


class RandomTreeDrafter(FakeDrafter):
    """Random trees of random tokens, with the right token mixed in where `law` is given."""

    def __init__(self, vocab_size: int, *, seed: int = 0, law: Law | None = None) -> None:
        super().__init__()
        self._vocab_size = vocab_size
        self._rng = np.random.default_rng(seed)
        self._law = law

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        parts = [
            self._tree(batch.known(index).tolist(), int(plan.num_nodes[index]), int(plan.depth[index]))
            for index in range(batch.num_rows)
        ]
        tokens, parents, depths = (ints([value for part in parts for value in part[at]]) for at in range(3))
        return Proposal(
            starts=starts_of([len(part[0]) for part in parts]),
            tokens=tokens,
            parents=parents,
            depths=depths,
            sources=np.ones(len(tokens), dtype=np.uint32),
        )

    def _tree(self, known: list[int], nodes: int, depth: int) -> tuple[list[int], list[int], list[int]]:
        tokens: list[int] = []
        parents: list[int] = []
        depths: list[int] = []
        paths: list[list[int]] = []
        taken: set[tuple[int, int]] = set()
        for _ in range(3 * nodes):
            parent = int(self._rng.integers(-1, len(tokens)))
            level = depths[parent] + 1 if parent >= 0 else 1
            prefix = paths[parent] if parent >= 0 else known
            token = int(self._rng.integers(self._vocab_size))
            if self._law is not None and self._rng.random() < 0.6:
                token = int(self._law(tuple(prefix)).argmax())
            if len(tokens) == nodes or level > depth or (parent, token) in taken:
                continue
            taken.add((parent, token))
            tokens.append(token)
            parents.append(parent)
            depths.append(level)
            paths.append([*prefix, token])
        return tokens, parents, depths


class LyingDrafter(FakeDrafter):
    """Proposes one fixed token and claims a law that it did not draw from."""

    def __init__(self, token: int) -> None:
        super().__init__()
        self._token = token

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        depths = [int(depth) for depth in plan.depth]
        total = sum(depths)
        laws = DraftLaws(
            of=ints(range(total)),
            starts=starts_of([2] * total),
            ids=ints([self._token, self._token + 1] * total),
            probabilities=np.tile([0.001, 0.999], total),
        )
        return Proposal.chains([ints([self._token] * depth) for depth in depths], laws=laws)


class BrokenDrafter(FakeDrafter):
    """Raises on every call."""

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        raise ZeroDivisionError("broken on purpose")

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        raise ZeroDivisionError("broken on purpose")

    def forget(self, rows: IntArray) -> None:
        raise ZeroDivisionError("broken on purpose")
