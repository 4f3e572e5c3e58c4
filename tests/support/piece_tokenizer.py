"""A tokenizer of pieces, longest first, with the habits that make two tokenizers hard to pair."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

BYTES = [bytes([value]) for value in range(256)]


class PieceTokenizer:
    """Implements the Tokenizer port over control tokens, then pieces, then single bytes.

    puts_space: writes a space before every text, as sentencepiece does. puts_begin: begins texts with its first
    control token. Control tokens written out in a text become themselves.
    """

    def __init__(
        self,
        pieces: Sequence[bytes],
        *,
        control: Sequence[str] = ("<s>", "</s>"),
        puts_space: bool = False,
        puts_begin: bool = False,
    ) -> None:
        self._control = list(control)
        self._pieces = [*pieces, *[byte for byte in BYTES if byte not in pieces]]
        self._ids = {piece: token for token, piece in enumerate(self._pieces, start=len(control))}
        self._longest = max(map(len, self._pieces))
        self._puts_space = puts_space
        self._puts_begin = puts_begin
        self.vocab_size = len(self._control) + len(self._pieces)
        self.bos_id: int | None = 0
        self.eos_ids: tuple[int, ...] = (1,)

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        ids = [0] if self._puts_begin and add_special else []
        parts = re.split("(" + "|".join(map(re.escape, self._control)) + ")", text)
        for part in parts:
            if part in self._control:
                ids.append(self._control.index(part))
            elif part:
                ids += self._encode_plain((" " + part if self._puts_space else part).encode())
        return ids

    def decode(self, ids: list[int] | np.ndarray, *, skip_special: bool = True) -> str:
        kept = [int(token) for token in ids if not (skip_special and self.is_special(int(token)))]
        return b"".join(self.token_bytes(token) for token in kept).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        return self._control[token].encode() if self.is_special(token) else self._pieces[token - len(self._control)]

    def is_special(self, token: int) -> bool:
        return token < len(self._control)

    def spelling(self, token: int) -> str | None:
        if not 0 <= token < self.vocab_size:
            return None
        return self._control[token] if self.is_special(token) else repr(self.token_bytes(token))

    def render_chat(self, messages, *, tools=None, add_generation_prompt: bool = True) -> str:
        return "".join(message["content"] for message in messages)

    def _encode_plain(self, text: bytes) -> list[int]:
        ids: list[int] = []
        while text:
            piece = next(
                text[:size] for size in range(min(len(text), self._longest), 0, -1) if text[:size] in self._ids
            )
            ids.append(self._ids[piece])
            text = text[len(piece) :]
        return ids
