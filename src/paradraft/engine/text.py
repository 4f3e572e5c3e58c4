"""Text out of tokens, as they come: no half characters, nothing of a stop text, one piece per token."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from paradraft.core.ports import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """What one token released: text, and the stop text that it completed."""

    text: str
    stop: str | None = None


class TextStream:
    """Decodes one choice. Text that could still turn out to be part of a stop text is held back."""

    def __init__(self, tokenizer: Tokenizer, stops: tuple[str, ...]) -> None:
        self._tokenizer = tokenizer
        self._stops = stops
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def push(self, token: int, *, is_silent: bool = False, scans_stops: bool = True) -> Piece:
        """Take the next token and return the text that is certain now.

        is_silent leaves the token out of the text (a stop id); scans_stops is off while a stop may not end the row.
        """
        if is_silent or self._tokenizer.is_special(token):
            return self._release(scans_stops=scans_stops)
        self._held += self._utf8.decode(self._tokenizer.token_bytes(token))
        return self._release(scans_stops=scans_stops)

    def flush(self) -> str:
        """Return what was held back; half a character at a true end becomes U+FFFD."""
        rest = self._held + self._utf8.decode(b"", final=True)
        self._held = ""
        return rest

    def _release(self, *, scans_stops: bool) -> Piece:
        if not scans_stops:
            text, self._held = self._held, ""
            return Piece(text=text)
        found = [(at, stop) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            at, stop = min(found)
            text, self._held = self._held[:at], ""
            return Piece(text=text, stop=stop)
        keep = self._longest_possible_stop()
        cut = len(self._held) - keep
        text, self._held = self._held[:cut], self._held[cut:]
        return Piece(text=text)

    def _longest_possible_stop(self) -> int:
        """Return how many characters at the end could be the beginning of a stop text."""
        longest = 0
        for stop in self._stops:
            for size in range(min(len(stop) - 1, len(self._held)), longest, -1):
                if self._held.endswith(stop[:size]):
                    longest = size
                    break
        return longest
