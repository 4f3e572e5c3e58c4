"""How single tokens are written: as text where they are text, as bytes where they are half a character."""

from __future__ import annotations

from paradraft.core.ports import Tokenizer


def spelled(tokenizer: Tokenizer, token: int) -> tuple[str, list[int]]:
    """Return a token's text and its bytes; bytes that are no text are written in hexadecimal, behind `bytes:`."""
    raw = tokenizer.token_bytes(token)
    try:
        return raw.decode("utf-8"), list(raw)
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw), list(raw)
