"""Finds the end of a JSON value in a text that comes in pieces."""

from __future__ import annotations


class JsonSpan:
    """Follows one object or list from its first bracket; it does not check what is inside."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_text = False
        self._is_escaped = False

    def end_in(self, piece: str) -> int | None:
        """Return the index behind the last bracket in this piece, None if it is still to come."""
        for index, character in enumerate(piece):
            if self._is_text:
                self._inside_text(character)
            elif character == '"':
                self._is_text = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth == 0:
                    return index + 1
        return None

    def _inside_text(self, character: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif character == "\\":
            self._is_escaped = True
        elif character == '"':
            self._is_text = False
