"""Grammars over bytes, one compiler for all engines of a test run, and a grammar that is a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from paradraft.core.arrays import BoolArray, IntArray
from paradraft.core.grammar import Grammar
from paradraft.structured.compiler import GrammarCompiler
from paradraft.structured.rows import RowGrammars
from support.byte_tokenizer import EOS, ByteTokenizer

BYTES = 259


@cache
def byte_compiler() -> GrammarCompiler:
    return GrammarCompiler(ByteTokenizer(BYTES), vocab_size=BYTES, is_affordable=lambda _: True)


def byte_grammars() -> RowGrammars:
    """Return an engine's own rows over the compiler that all share."""
    return RowGrammars(byte_compiler())


def spelled(text: str, *, ends: bool = False) -> list[int]:
    return [*text.encode(), *([EOS] if ends else [])]


class FunctionGrammars:
    """Implements the Grammars port for every grammar by one function: output -> ids that may follow."""

    def __init__(self, follow: Callable[[tuple[int, ...]], Sequence[int]], vocab_size: int) -> None:
        self._follow = follow
        self._vocab_size = vocab_size
        self.forgotten: list[int] = []
        self.asked: list[tuple[int, ...]] = []

    def compile(self, grammar: Grammar) -> None:
        pass

    def matcher(self, row: int, grammar: Grammar) -> FunctionGrammars:
        return self

    def forget(self, rows: IntArray) -> None:
        self.forgotten.extend(rows.tolist())

    def allowed(self, output: IntArray) -> BoolArray:
        self.asked.append(tuple(output.tolist()))
        mask = np.zeros(self._vocab_size, dtype=np.bool_)
        mask[list(self._follow(tuple(output.tolist())))] = True
        return mask

    def count_allowed(self, output: IntArray, path: Sequence[int]) -> int:
        known = tuple(output.tolist())
        for count, token in enumerate(path):
            if token not in self._follow(known):
                return count
            known = (*known, token)
        return len(path)
