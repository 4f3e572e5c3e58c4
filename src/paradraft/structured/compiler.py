"""Grammars made ready to match: compiled within limits, checked to match something, and kept."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Event, Lock

import numpy as np
from llguidance import LLMatcher, LLTokenizer

from paradraft.core.arrays import BoolArray
from paradraft.core.errors import RequestRefused
from paradraft.core.grammar import Grammar, GrammarKind
from paradraft.core.ports import Clock, Tokenizer
from paradraft.structured.notation import lark_of
from paradraft.structured.refusals import Refusals
from paradraft.structured.trial import MAX_CPU_SECONDS, is_affordable, open_matcher
from paradraft.structured.vocabulary import build_vocabulary

_MOST_REASON = 300  # characters of the library's own words
_PLACE = re.compile(r"^(at )?\d+\(\d+\): ")  # in a text that the user may never have seen
_WORSE = re.compile(r"^error: (.+)$", re.MULTILINE)  # the last words of a long complaint about a regular expression


class GrammarCompiler:
    """Compiles grammars for one tokenizer and keeps the `capacity` last used ones. Safe to call from any thread.

    As many refusals are kept besides, and whoever asks for a grammar that is being tried waits for that trial: so a
    grammar that is sent again and again, wrong or right, is tried once.

    vocab_size counts the target's logits, which may be more than the tokenizer has ids. is_affordable says of a
    grammar, as the library takes it, whether compiling it here would end in good time.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        vocab_size: int,
        capacity: int = 64,
        is_affordable: Callable[[str], bool] = is_affordable,
        clock: Clock = time.monotonic,
    ) -> None:
        self.eos_ids = frozenset(tokenizer.eos_ids)
        self.vocab_size = vocab_size
        self._tokenizer = tokenizer
        self._capacity = capacity
        self._is_affordable = is_affordable
        self._vocabulary: LLTokenizer | None = None
        self._building = Lock()
        self._compiled: OrderedDict[Grammar, LLMatcher] = OrderedDict()
        self._refusals = Refusals(capacity, clock=clock)
        self._in_trial: dict[Grammar, Event] = {}
        self._keeping = Lock()

    def __len__(self) -> int:
        """Return the number of grammars that are kept."""
        return len(self._compiled)

    def open(self, grammar: Grammar, *, is_tried: bool = False) -> LLMatcher:
        """Return a matcher at the beginning of the grammar, the caller's own.

        is_tried: it was opened before, so that no trial is needed should it have left in the meantime.
        Raises RequestRefused for a grammar that is wrong, needs more than the limits, or matches nothing but the empty
        text. The library lets other threads run while it compiles.
        """
        found = self._recompiled(grammar) if is_tried else self._tried(grammar)
        return found.deep_copy()

    def _recompiled(self, grammar: Grammar) -> LLMatcher:
        with self._keeping:
            found = self._kept(grammar)
        return self._compiled_now(grammar, needs_trial=False) if found is None else found

    def _tried(self, grammar: Grammar) -> LLMatcher:
        found = self._awaited(grammar)
        if found is not None:
            return found
        try:
            return self._compiled_now(grammar, needs_trial=True)
        except RequestRefused as error:
            with self._keeping:
                self._refusals.add(grammar, error)
            raise
        finally:
            with self._keeping:
                self._in_trial.pop(grammar).set()

    def _awaited(self, grammar: Grammar) -> LLMatcher | None:
        """Return the grammar as it was compiled, by another thread if one is at it; None: the trial is this thread's.

        Raises RequestRefused where it is known that the grammar is refused.
        """
        while True:
            with self._keeping:
                found = self._kept(grammar)
                if found is not None:
                    return found
                self._refusals.check(grammar)
                others = self._in_trial.get(grammar)
                if others is None:
                    self._in_trial[grammar] = Event()
                    return None
            others.wait()

    def _kept(self, grammar: Grammar) -> LLMatcher | None:
        """Return a grammar that is kept; for whoever holds the lock."""
        found = self._compiled.get(grammar)
        if found is not None:
            self._compiled.move_to_end(grammar)
        return found

    def _compiled_now(self, grammar: Grammar, *, needs_trial: bool) -> LLMatcher:
        """Compile and keep a grammar."""
        found = self._compile(grammar, needs_trial=needs_trial)
        with self._keeping:
            self._compiled[grammar] = found
            while len(self._compiled) > self._capacity:
                self._compiled.popitem(last=False)
        return found

    def _compile(self, grammar: Grammar, *, needs_trial: bool) -> LLMatcher:
        vocabulary, lark = self._ready_vocabulary(), lark_of(grammar)
        if needs_trial and not self._is_affordable(lark):
            raise RequestRefused(
                f"The {grammar.title} takes more than {MAX_CPU_SECONDS} seconds to compile.",
                remedy="Simplify it: fewer alternatives, patterns under one allOf, nested repetitions.",
            )
        matcher = open_matcher(vocabulary, lark)
        if matcher.is_error():
            raise RequestRefused(
                f"The {grammar.title} cannot be enforced: {_reason(matcher.get_error(), grammar)}.",
                remedy="Correct or simplify it, and leave out what is named.",
            )
        mask = mask_of(matcher.deep_copy(), self.vocab_size)
        mask[list(self.eos_ids)] = False
        if not mask.any():
            raise RequestRefused(
                f"The {grammar.title} matches no text, or the empty one alone.",
                remedy="Change it so that an answer can have at least one token.",
            )
        return matcher

    def _ready_vocabulary(self) -> LLTokenizer:
        with self._building:
            if self._vocabulary is None:
                self._vocabulary = build_vocabulary(self._tokenizer, self.vocab_size)
            return self._vocabulary


def mask_of(matcher: LLMatcher, vocab_size: int) -> BoolArray:
    """Return the tokens that a matcher lets follow, [V]; end-of-sequence alone where it has failed."""
    bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
    return np.unpackbits(bits, count=vocab_size, bitorder="little").view(np.bool_)


def first_line(error: str) -> str:
    """Return the beginning of the library's error text."""
    return error.partition("\n")[0][:_MOST_REASON].rstrip(".:")


def _reason(error: str, grammar: Grammar) -> str:
    """Return the part of an error text that tells the user something."""
    worse = _WORSE.search(error)
    if grammar.kind is GrammarKind.GRAMMAR:
        return first_line(error)
    return first_line(_PLACE.sub("", error) if worse is None else worse[1])
