"""What an operator's output filter sees and says. It judges text that is committed, never drafts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Action(StrEnum):
    """What becomes of a text."""

    PASS = "pass"
    REPLACE = "replace"  # another text goes out in its place, perhaps an empty one
    HOLD = "hold"  # it comes again with what follows
    STOP = "stop"  # the choice ends here; another text may go out in its place


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """What becomes of the text that a filter was shown; `text` goes out instead where it is replaced or stopped."""

    action: Action
    text: str = ""


PASS = FilterVerdict(Action.PASS)
HOLD = FilterVerdict(Action.HOLD)

# Judges one choice. It is called in order with the text that one token released, behind all that it held back, and with
# True where nothing more will come: then the text may be empty, and what is still held back is dropped.
Filter = Callable[[str, bool], FilterVerdict]
# Makes the filter of a choice, so that what one choice said is not known to another.
FilterFactory = Callable[[], Filter]
