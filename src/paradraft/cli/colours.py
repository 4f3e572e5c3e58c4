"""Text coloured by where its tokens came from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat

from rich.text import Text

from paradraft.core.records import Origin

_STYLES = {Origin.DRAFTED: "bold green", Origin.BONUS: "cyan", Origin.RECOVERED: "yellow", Origin.PLAIN: ""}
_NAMES = {
    Origin.DRAFTED: "drafted and accepted",
    Origin.BONUS: "added after a fully accepted draft",
    Origin.RECOVERED: "put right after a rejected draft",
    Origin.PLAIN: "decoded plainly",
}


def paint(pieces: Sequence[str], origins: Iterable[Origin]) -> Text:
    """Return the pieces, one per token, each in the colour of its origin; one without a token has none."""
    text = Text()
    for piece, origin in zip(pieces, chain(origins, repeat(Origin.PLAIN)), strict=False):
        text.append(piece, style=_STYLES[origin])
    return text


def legend() -> Text:
    """Return what the colours mean."""
    text = Text("Colours: ")
    for number, (origin, name) in enumerate(_NAMES.items()):
        text.append(", " if number else "").append(name, style=_STYLES[origin])
    return text
