"""Reads calls out of a text as it comes; the same parts come out however it is cut into pieces."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto

from paradraft.server.tools.formats import ToolFormat
from paradraft.server.tools.parts import Call, Part, calls_in
from paradraft.server.tools.span import JsonSpan

_LONGEST_HEADER = 256


class _State(Enum):
    BLANK = auto()  # nothing but blanks yet, and calls may come without an opening
    TEXT = auto()
    HEAD = auto()  # behind an opening, before the first bracket
    BODY = auto()
    AFTER = auto()  # behind a call, before its closing


class CallReader:
    """Tells text from calls. What looks like a call and turns out to be none is text, to the letter.

    Blanks around calls are dropped. `is_inside`: the opening has been written already, as part of the prompt.
    """

    def __init__(self, form: ToolFormat, known: Collection[str], *, is_inside: bool = False) -> None:
        self._form = form
        self._known = known
        self._state = _State.HEAD if is_inside else _State.BLANK if form.starts_bare else _State.TEXT
        self._held = ""  # text of which it is not certain yet what it is
        self._raw = ""  # a call under way as it was written, with the blanks before it
        self._head = ""
        self._body = ""
        self._span = JsonSpan()
        self._has_called = False

    def feed(self, text: str) -> list[Part]:
        """Take the next piece and return what has become certain."""
        self._held += text
        parts: list[Part] = []
        while self._advance(parts):
            pass
        return _joined(parts)

    def end(self) -> list[Part]:
        """Return the rest; a call that is not complete is text."""
        rest = self._raw + self._held
        if self._state is _State.AFTER or (self._has_called and not rest.strip()):
            return []
        return [rest] if rest else []

    def _advance(self, parts: list[Part]) -> bool:
        """Make one move; False if the text that is there does not say which."""
        match self._state:
            case _State.BLANK:
                return self._start()
            case _State.TEXT:
                return self._read_text(parts)
            case _State.HEAD:
                return self._read_head(parts)
            case _State.BODY:
                return self._read_body(parts)
            case _State.AFTER:
                return self._read_after()

    def _start(self) -> bool:
        seen = self._held.lstrip()
        if seen:
            self._state = _State.HEAD if seen[0] == "{" else _State.TEXT
        return bool(seen)

    def _read_text(self, parts: list[Part]) -> bool:
        opening = self._form.opening
        at = self._held.find(opening)
        if at >= 0:
            before = self._held[:at]
            kept = before.rstrip()
            parts.append(kept)
            self._raw = before[len(kept) :] + opening
            self._held = self._held[at + len(opening) :]
            self._state = _State.HEAD
            return True
        certain = self._held[: len(self._held) - _overlap(self._held, opening)].rstrip()
        parts.append(certain)
        self._held = self._held[len(certain) :]
        return False

    def _read_head(self, parts: list[Part]) -> bool:
        """Move on to the first bracket; anything else that a header cannot begin with ends the hope for a call."""
        at = self._bracket()
        head = self._held if at is None else self._held[:at]
        if at is None and self._can_be_head(head):
            return False
        if at is None or not self._is_head(head):
            return self._give_up(parts)
        self._raw += head
        self._head = head
        self._held = self._held[at:]
        self._body, self._span = "", JsonSpan()
        self._state = _State.BODY
        return True

    def _bracket(self) -> int | None:
        for index, character in enumerate(self._held):
            if character == "{" or (character == "[" and not self._held[:index].strip()):
                return index
        return None

    def _is_head(self, head: str) -> bool:
        header = self._form.header
        return not head.strip() or (header is not None and header.fullmatch(head) is not None)

    def _can_be_head(self, head: str) -> bool:
        if not head.strip():
            return True
        return self._form.header is not None and len(head) <= _LONGEST_HEADER and "\n" not in head.strip()

    def _read_body(self, parts: list[Part]) -> bool:
        end = self._span.end_in(self._held)
        taken = self._held if end is None else self._held[:end]
        self._body += taken
        self._raw += taken
        self._held = self._held[len(taken) :]
        if end is None:
            return False
        calls = calls_in(self._body, self._name(), self._known)
        if not calls:
            return self._give_up(parts)
        parts.extend(calls)
        self._has_called = True
        self._raw = ""
        self._state = _State.AFTER
        return True

    def _name(self) -> str:
        found = self._form.header.fullmatch(self._head) if self._form.header is not None else None
        return "" if found is None else found[1]

    def _read_after(self) -> bool:
        closing, between = self._form.closing, self._form.between
        seen = self._held.lstrip()
        if closing and seen.startswith(closing):
            self._held = seen[len(closing) :]
        elif between and seen.startswith(between):
            self._held = seen[len(between) :]
            self._state = _State.HEAD
            return True
        elif closing.startswith(seen):
            return False
        self._state = _State.TEXT
        return True

    def _give_up(self, parts: list[Part]) -> bool:
        """Make text of a call that is none."""
        parts.append(self._raw)
        self._raw = ""
        self._state = _State.TEXT
        return True


def _overlap(text: str, mark: str) -> int:
    """Return how many characters at the end of a text could be the beginning of a mark."""
    return next((size for size in range(min(len(mark) - 1, len(text)), 0, -1) if text.endswith(mark[:size])), 0)


def _joined(parts: list[Part]) -> list[Part]:
    """Return the parts without empty texts, neighbouring texts as one."""
    joined: list[Part] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif isinstance(part, Call) or part:
            joined.append(part)
    return joined
