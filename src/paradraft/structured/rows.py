"""Which row stands where in which grammar: the one owner of all matchers."""

from __future__ import annotations

from functools import partial

from paradraft.core.arrays import IntArray
from paradraft.core.grammar import Grammar
from paradraft.structured.compiler import GrammarCompiler
from paradraft.structured.matcher import RowMatcher


class RowGrammars:
    """Implements core.grammar.Grammars for one engine. `compile` is safe from any thread, the rest is the engine's.

    A row's matcher is found by the row's number and its grammar, and answers for whatever output it is shown; so a row
    that another choice takes over, or that comes back after a preemption, never meets what was there before.
    """

    def __init__(self, compiler: GrammarCompiler) -> None:
        """Take the compiler for the model's vocabulary; several owners may share one."""
        self._compiler = compiler
        self._rows: dict[int, tuple[Grammar, RowMatcher]] = {}

    def __len__(self) -> int:
        """Return the number of rows that have a matcher."""
        return len(self._rows)

    def compile(self, grammar: Grammar) -> None:
        """Make sure that the grammar can be enforced; see Grammars."""
        self._compiler.open(grammar)

    def matcher(self, row: int, grammar: Grammar) -> RowMatcher:
        """Return the row's matcher; see Grammars."""
        known = self._rows.get(row)
        if known is None or known[0] != grammar:
            compiler = self._compiler
            known = self._rows[row] = (
                grammar,
                RowMatcher(
                    partial(compiler.open, grammar, is_tried=True),
                    eos_ids=compiler.eos_ids,
                    vocab_size=compiler.vocab_size,
                ),
            )
        return known[1]

    def forget(self, rows: IntArray) -> None:
        """Drop the matchers of these rows; see Grammars."""
        for row in rows.tolist():
            self._rows.pop(row, None)
