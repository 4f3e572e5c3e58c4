"""A byte tokenizer with other ids than ByteTokenizer's: the same bytes, counted from the other end."""

from __future__ import annotations

import numpy as np


class ShiftedTokenizer:
    """Implements the Tokenizer port over the first vocab_size bytes; id 0 stands for the last of them."""

    def __init__(self, vocab_size: int = 256) -> None:
        self.vocab_size = vocab_size
        self.eos_ids: tuple[int, ...] = ()
        self.bos_id: int | None = None

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        return [self.vocab_size - 1 - value for value in text.encode() if value < self.vocab_size]

    def decode(self, ids: list[int] | np.ndarray, *, skip_special: bool = True) -> str:
        return b"".join(self.token_bytes(int(token)) for token in ids).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        return bytes([self.vocab_size - 1 - token])

    def is_special(self, token: int) -> bool:
        return False

    def spelling(self, token: int) -> str | None:
        return f"byte {self.vocab_size - 1 - token}" if 0 <= token < self.vocab_size else None

    def render_chat(self, messages, *, tools=None, add_generation_prompt: bool = True) -> str:
        return "".join(message["content"] for message in messages)
