"""What those who wait are told when an engine ends before their turn."""

from __future__ import annotations

from collections.abc import Iterable

from paradraft.core.errors import CapacityError
from paradraft.core.events import TokenEvent
from paradraft.core.records import FinishReason

STOPPED = "The engine has stopped."


def stopped(failure: str | None) -> CapacityError:
    """Return the error of what an engine will not do any more."""
    return CapacityError(failure or STOPPED, remedy="Start it again.")


def endings(request_id: str, choices: Iterable[int], error: str) -> list[TokenEvent]:
    """Return a last event for each of these choices."""
    return [
        TokenEvent(
            request_id=request_id,
            index=choice,
            token_ids=(),
            origins=(),
            pieces=(),
            finish_reason=FinishReason.ERROR,
            error=error,
        )
        for choice in choices
    ]
