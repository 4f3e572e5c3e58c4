"""A tokenizer whose ids are bytes; a few ids above stand for special tokens."""

from __future__ import annotations

import numpy as np

from paradraft.core.errors import RequestRefused

BOS, EOS, SPECIAL = 256, 257, 258


class ByteTokenizer:
    """Implements the Tokenizer port over 259 ids; larger vocabularies leave the rest unused."""

    chat_template: str | None = None
    template_knows_tools = False

    def __init__(self, vocab_size: int = 259, eos_ids: tuple[int, ...] = (EOS,)) -> None:
        self.vocab_size = vocab_size
        self.eos_ids = eos_ids
        self.bos_id: int | None = BOS

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        try:
            return list(text.encode())
        except UnicodeEncodeError as error:
            raise RequestRefused("The text has half a character.", remedy="Send valid Unicode.") from error

    def decode(self, ids: list[int] | np.ndarray, *, skip_special: bool = True) -> str:
        return b"".join(self.token_bytes(int(token)) for token in ids if not self.is_special(int(token))).decode(
            "utf-8", "replace"
        )

    def token_bytes(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else f"<{token}>".encode()

    def is_special(self, token: int) -> bool:
        return token >= 256

    def spelling(self, token: int) -> str | None:
        return f"<{token:#04x}>" if token < 259 else None

    def render_chat(self, messages, *, tools=None, add_generation_prompt: bool = True) -> str:
        lines = [f"{message['role']}: {message['content']}\n" for message in messages]
        return "".join(lines) + ("assistant: " if add_generation_prompt else "")
