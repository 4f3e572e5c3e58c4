"""A model's vocabulary as llguidance takes it."""

from __future__ import annotations

from llguidance import LLTokenizer, TokenizerWrapper

from paradraft.core.errors import RequestRefused
from paradraft.core.ports import Tokenizer


def build_vocabulary(tokenizer: Tokenizer, vocab_size: int) -> LLTokenizer:
    """Return the library's trie of all tokens; ids from the tokenizer's last to vocab_size stand for nothing.

    Takes a few tenths of a second. Raises RequestRefused for a model without end-of-sequence: nothing would end an
    answer.
    """
    if not tokenizer.eos_ids:
        raise RequestRefused(
            "A grammar is asked for, and this model has no end-of-sequence token to end the answer with.",
            remedy="Leave grammar out, or use a model whose tokenizer names one.",
        )
    spoken = _Spoken(tokenizer, vocab_size)
    return LLTokenizer(TokenizerWrapper(spoken), eos_token=list(tokenizer.eos_ids))


class _Spoken:
    """What the library reads of a tokenizer, under the names it looks for."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        known = min(tokenizer.vocab_size, vocab_size)
        self.eos_token_id = tokenizer.eos_ids[0]
        self.bos_token_id = tokenizer.bos_id
        self.tokens = [tokenizer.token_bytes(token) for token in range(known)] + [b""] * (vocab_size - known)
        self.special_token_ids = [token for token in range(known) if tokenizer.is_special(token)]
        self._tokenizer = tokenizer

    def __call__(self, text: bytes) -> list[int]:
        return self._tokenizer.encode(text.decode("utf-8"), add_special=False)
