"""How many lists and objects a body has and how deep they lie, counted before anything parses it.

Parsers make an object of Python of each, far dearer than the two bytes that ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from paradraft.server.errors import ApiError

_BRACKETS = b"[]{}"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


@dataclass(frozen=True, kw_only=True, slots=True)
class NestingBound:
    """max_lists: lists and objects of a body together. max_depth: how many of them one may lie in, with itself."""

    max_lists: int
    max_depth: int

    def check(self, body: bytes) -> None:
        """Raise ApiError (400) for a body beyond either bound; whether it is JSON is another's question."""
        if _count(body) <= min(self.max_lists, self.max_depth):
            return  # neither bound can be passed, whatever of these brackets is text
        brackets = _without_texts(body).translate(None, _OTHERS)
        count = _count(brackets)
        if count > self.max_lists:
            raise ApiError(
                400,
                f"The body has {count} lists and objects, more than this server's limit of {self.max_lists}. "
                "Send fewer of them, in several requests.",
                code="too_many_lists",
            )
        whole = brackets[: 2 * count]  # what closes more than was opened is no JSON, however long it goes on
        depth = max(accumulate(_STEPS[each] for each in whole), default=0)
        if depth > self.max_depth:
            raise ApiError(
                400,
                f"The body nests lists and objects {depth} deep, more than this server's limit of {self.max_depth}. "
                "Make it flatter.",
                code="too_deep",
            )


def _count(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def _without_texts(body: bytes) -> bytes:
    """Return what stands between the texts of a body."""
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in body else body
    return b"".join(plain.split(b'"')[::2])
