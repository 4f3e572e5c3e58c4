"""What bytes a vocabulary string stands for, in byte-level and in sentencepiece vocabularies."""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Any

from tokenizers import Tokenizer as Backend

from paradraft.core.errors import ModelError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE_MARK = "\u2581"


class Spelling(Enum):
    """How a vocabulary writes bytes."""

    BYTE_LEVEL = "ByteLevel"  # each byte is a printable character (GPT-2 and kin)
    SENTENCEPIECE = "sentencepiece"  # text with a mark for the space, and <0xNN> for bytes without a piece


def spelling_of(backend: Backend) -> Spelling:
    """Tell a backend's spelling by its decoder; raise ModelError for a kind whose bytes are not known."""
    decoder = _decoder_of(backend)
    kinds = {part.get("type") for part in decoder.get("decoders", [decoder])}
    if "ByteLevel" in kinds:
        return Spelling.BYTE_LEVEL
    if kinds & {"ByteFallback", "Metaspace"} or any(
        _replaces_mark(part) for part in decoder.get("decoders", [decoder])
    ):
        return Spelling.SENTENCEPIECE
    names = ", ".join(sorted(str(kind) for kind in kinds))
    raise ModelError(
        f"The tokenizer's decoder is {names}; the bytes of its tokens are not known.",
        remedy="Use a model with a byte-level or sentencepiece vocabulary.",
    )


def bytes_of(text: str, spelling: Spelling) -> bytes:
    """Return the bytes of a vocabulary string that is not a special token."""
    if spelling is Spelling.BYTE_LEVEL:
        return byte_level_bytes(text)
    byte = _BYTE_TOKEN.fullmatch(text)
    return bytes([int(byte[1], 16)]) if byte else text.replace(_SPACE_MARK, " ").encode("utf-8")


def byte_level_bytes(text: str) -> bytes:
    """Undo the byte-level spelling; a text with a character outside it stands for itself."""
    try:
        return text.translate(_BYTE_OF).encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8")


def _decoder_of(backend: Backend) -> dict[str, Any]:
    """Return what a tokenizer.json says of the decoder, without writing out the vocabulary beside it."""
    state: bytes = b"{}" if backend.decoder is None else backend.decoder.__getstate__()
    decoder: dict[str, Any] = json.loads(state)
    return decoder


def _replaces_mark(part: dict[str, object]) -> bool:
    return part.get("type") == "Replace" and part.get("pattern") == {"String": _SPACE_MARK}


def _byte_characters() -> dict[int, int]:
    """Return GPT-2's table: printable Latin-1 characters are themselves, the other bytes follow from U+0100 on.

    Latin-1 characters that stand for no byte become one that is not Latin-1.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    spelled = {byte: byte for byte in printable} | {0x100 + index: byte for index, byte in enumerate(others)}
    return dict.fromkeys(others, 0xFFFF) | spelled


_BYTE_OF = _byte_characters()
