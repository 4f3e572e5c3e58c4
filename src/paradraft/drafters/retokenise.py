"""A row's text in the ids of a drafter with another tokenizer, kept up to date as the target's ids come in.

Only text is handed over, byte for byte. What can no longer change is encoded once; the word that is being written
is encoded anew each time. The drafter's begin token stands at the very start and is never inserted again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from paradraft.core.arrays import IntArray, ints
from paradraft.core.ports import Tokenizer
from paradraft.drafters.vocabulary import NO_ID, VocabularyMap

# A single space between two words: no known pre-tokenizer joins what stands on its two sides.
_SEAM = re.compile(rb"(?<=\S) (?=\S)")
MAX_OPEN = 64  # bytes without a seam from which all but the last few are taken for final anyway
_KEPT_OPEN = 16
_FIRST_ROOM = 256


class Encoder:
    """Encodes bytes, not characters, and checks that nothing was added, dropped or rewritten on the way."""

    def __init__(self, tokenizer: Tokenizer, pieces: Mapping[bytes, int]) -> None:
        """Encode with a tokenizer; pieces are its tokens of text by their bytes."""
        self._tokenizer = tokenizer
        self._pieces = pieces
        self._longest = max(map(len, pieces), default=1)

    def encode(self, text: bytes, *, is_start: bool) -> list[int]:
        """Return ids that stand for exactly this text; if is_start, they may have a space before it.

        What the tokenizer does not give back unchanged (half a character, text it normalises, the spelling of a
        control token) is spelled out with the longest tokens that fit. Bytes that no token has are left out.
        """
        whole = _whole_characters(text)
        ids = self._exactly(text[:whole], is_start=is_start)
        return self._spell_out(text) if ids is None else ids + self._spell_out(text[whole:])

    def _exactly(self, text: bytes, *, is_start: bool) -> list[int] | None:
        if not text:
            return []
        ids = self._tokenizer.encode(text.decode(), add_special=False)
        if self._is(ids, text) or (is_start and self._is(ids, b" " + text)):
            return ids
        # Sentencepiece puts a space before every text that it encodes, so it gets one less.
        ids = self._tokenizer.encode(text[1:].decode(), add_special=False) if text.startswith(b" ") else []
        return ids if self._is(ids, text) else None

    def _is(self, ids: list[int], text: bytes) -> bool:
        tokenizer = self._tokenizer
        if b"".join([tokenizer.token_bytes(token) for token in ids]) != text:
            return False
        return not any(tokenizer.is_special(token) for token in ids)

    def _spell_out(self, text: bytes) -> list[int]:
        ids: list[int] = []
        at = 0
        while at < len(text):
            ends = range(min(len(text), at + self._longest), at, -1)
            end = next((end for end in ends if text[at:end] in self._pieces), None)
            if end is not None:
                ids.append(self._pieces[text[at:end]])
            at = at + 1 if end is None else end
        return ids


class MappedText:
    """One row's text. `ids` are the drafter's; the first `num_stable` of them will stay as they are."""

    def __init__(self, mapping: VocabularyMap, encoder: Encoder) -> None:
        """Begin an empty text, with the drafter's begin token if its tokenizer puts one before a text."""
        self.num_stable = 0
        self._mapping = mapping
        self._encoder = encoder
        self._ids = np.zeros(_FIRST_ROOM, dtype=np.int32)
        self._end = 0
        self._open = b""  # text behind the stable ids
        self._num_read = 0
        self._is_start = True
        self._write(mapping.draft.encode("", add_special=True))
        self._begun = self.num_stable = self._end

    @property
    def ids(self) -> IntArray:
        """Return the text in draft ids, valid until the next call of follow."""
        return self._ids[: self._end]

    def follow(self, history: IntArray) -> None:
        """Read on in the target's ids, which only grow."""
        if len(history) == self._num_read:
            return
        self._end = self.num_stable
        target = self._mapping.target
        for place, token in enumerate(history[self._num_read :].tolist(), start=self._num_read):
            if not target.is_special(token):
                self._open += target.token_bytes(token)
            elif place or not self._begun or token != target.bos_id:
                self._settle(len(self._open))
                self._add_special(token)
        self._num_read = len(history)
        self._settle(_final_bytes(self._open))
        self._write(self._encode(self._open))

    def _add_special(self, token: int) -> None:
        partner = int(self._mapping.to_draft[token])
        if partner != NO_ID:
            self._write([partner])
            self.num_stable = self._end
        self._is_start = True

    def _settle(self, count: int) -> None:
        """Make the first count open bytes final."""
        if not count:
            return
        self._write(self._encode(self._open[:count]))
        self.num_stable = self._end
        self._open = self._open[count:]
        self._is_start = False

    def _encode(self, text: bytes) -> list[int]:
        return self._encoder.encode(text, is_start=self._is_start)

    def _write(self, ids: list[int]) -> None:
        end = self._end + len(ids)
        if end > len(self._ids):
            longer = np.zeros(max(2 * len(self._ids), end), dtype=np.int32)
            longer[: self._end] = self._ids[: self._end]
            self._ids = longer
        self._ids[self._end : end] = ints(ids)
        self._end = end


def _final_bytes(text: bytes) -> int:
    """Return how much of a text that goes on will be encoded the same whatever follows."""
    seam = 0
    for match in _SEAM.finditer(text):
        seam = match.start()
    if len(text) - seam <= MAX_OPEN:
        return seam
    return _whole_characters(text[: len(text) - _KEPT_OPEN])


def _whole_characters(text: bytes) -> int:
    """Return the length of the text without a last character that is still incomplete; 0 if it is not UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start if error.end == len(text) and error.reason == "unexpected end of data" else 0
    return len(text)
