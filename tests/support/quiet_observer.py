"""An observer that notes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from paradraft.core.events import TokenEvent
from paradraft.core.requests import Request


class QuietObserver:
    """Implements core.serving.Observer where nobody watches."""

    def arrived(self, request: Request, now: float) -> None:
        """Note nothing."""

    def told(self, events: Sequence[TokenEvent], now: float) -> None:
        """Note nothing."""

    def refused(self, status: int, reason: str) -> None:
        """Note nothing."""
