"""Drafters for enumeration: they draw their nodes through the noise from the laws they report."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache

import numpy as np

from paradraft.core.arrays import DoubleArray, ints
from paradraft.core.ports import Noise
from paradraft.verify.law import Law
from paradraft.verify.noise import DRAFT, lane
from paradraft.verify.residual import without
from support.enumeration import Tokens
from support.steps import Draft

LawOf = Callable[[Tokens], Law]
Drafting = Callable[[Noise, LawOf, int], Draft]  # noise, q, position of the first new token

KINDS = ("random", "peaked", "one_hot", "truncated", "low_half", "high_half", "uniform")


def law_by_prefix(kind: str, vocab_size: int, salt: int) -> LawOf:
    """Return prefix -> law of one kind, another one for every prefix."""

    @cache
    def law(prefix: Tokens) -> Law:
        rng = np.random.default_rng(zlib.crc32(np.array([salt, *prefix], dtype=np.int64).tobytes()))
        return Law(ids=None, probabilities=_probabilities(kind, vocab_size, rng))

    return law


def _probabilities(kind: str, vocab_size: int, rng: np.random.Generator) -> DoubleArray:
    weights = rng.uniform(0.05, 1.0, size=vocab_size)
    half = np.arange(vocab_size) < vocab_size // 2
    if kind == "peaked":
        weights **= 6
    elif kind == "one_hot":
        weights = np.eye(vocab_size)[rng.integers(vocab_size)]
    elif kind == "truncated":
        weights[rng.integers(vocab_size)] = 0.0
    elif kind in ("low_half", "high_half"):
        weights = weights * (half if kind == "low_half" else ~half)
    elif kind == "uniform":
        weights[:] = 1.0
    probabilities: DoubleArray = weights / weights.sum()
    return probabilities


def sparse(law: Law) -> Law:
    """Return the law with its zeros left out."""
    kept = np.flatnonzero(law.probabilities)
    return Law(ids=ints(kept), probabilities=law.probabilities[kept])


def draw(noise: Noise, law: Law, position: int, index: int) -> int:
    """Draw the token of node `index`, as sampling drafters have to."""
    return law.token(noise.choose(law.probabilities, law.ids, position=position, stream=lane(DRAFT, index)))


def sampled_chain(depth: int) -> Drafting:
    """Draw every node from q, given the nodes before it."""

    def drafting(noise: Noise, q: LawOf, position: int) -> Draft:
        draft, node = Draft(), -1
        for index in range(depth):
            law = q(draft.path(node))
            node = draft.add(draw(noise, law, position, index), node, sparse(law))
        return draft

    return drafting


def best_chain(depth: int) -> Drafting:
    """Take the most probable token under q at every node: deterministic."""

    def drafting(noise: Noise, q: LawOf, position: int) -> Draft:
        draft, node = Draft(), -1
        for _ in range(depth):
            node = draft.add(int(q(draft.path(node)).probabilities.argmax()), node)
        return draft

    return drafting


def sampled_tree(*branching: int) -> Drafting:
    """Draw siblings from q without replacement, branching[d] of them below every node of depth d."""

    def drafting(noise: Noise, q: LawOf, position: int) -> Draft:
        draft, level, draws = Draft(), [-1], 0
        for width in branching:
            below: list[int] = []
            for parent in level:
                law, elders = q(draft.path(parent)), list[int]()
                for _ in range(width):
                    left = without(law, elders)
                    if not left.probabilities.any():
                        break
                    elders.append(draw(noise, left, position, draws))
                    below.append(draft.add(elders[-1], parent, sparse(law)))
                    draws += 1
            level = below
        return draft

    return drafting


def merged_tree(*branching: int) -> Drafting:
    """Draw siblings from q with replacement and keep one of those that are alike."""

    def drafting(noise: Noise, q: LawOf, position: int) -> Draft:
        draft, level, draws = Draft(), [-1], 0
        for width in branching:
            below: list[int] = []
            for parent in level:
                law = q(draft.path(parent))
                for _ in range(width):
                    token = draw(noise, law, position, draws)
                    draws += 1
                    if not draft.has_child(parent, token):
                        below.append(draft.add(token, parent, sparse(law)))
            level = below
        return draft

    return drafting


def best_tree(*branching: int) -> Drafting:
    """Take the most probable tokens under q as siblings: deterministic."""

    def drafting(noise: Noise, q: LawOf, position: int) -> Draft:
        draft, level = Draft(), [-1]
        for width in branching:
            below: list[int] = []
            for parent in level:
                ranking = np.argsort(-q(draft.path(parent)).probabilities, kind="stable")
                below += [draft.add(int(token), parent) for token in ranking[:width]]
            level = below
        return draft

    return drafting


def mixed_tree(other: LawOf) -> Drafting:
    """Below the root: the best token under q, one drawn from q, one from another law; below those one drawn from q."""

    def drafting(noise: Noise, q: LawOf, position: int) -> Draft:
        draft = Draft()
        draft.add(int(q(()).probabilities.argmax()), -1)
        for index, law in enumerate((q(()), other(()))):
            token = draw(noise, law, position, index)
            if not draft.has_child(-1, token):
                draft.add(token, -1, sparse(law))
        for parent in range(len(draft.tokens)):
            law = q(draft.path(parent))
            draft.add(draw(noise, law, position, 2 + parent), parent, sparse(law))
        return draft

    return drafting
