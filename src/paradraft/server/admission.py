"""Who may come in: a bound on what waits, and nobody once the server is on its way out."""

from __future__ import annotations

from paradraft.core.serving import Service
from paradraft.server.errors import ApiError
from paradraft.server.options import ServerOptions
from paradraft.server.switchboard import Switchboard


class Admission:
    """Decides whether a request is taken, before any of it is queued."""

    def __init__(self, service: Service, switchboard: Switchboard, options: ServerOptions) -> None:
        self._service = service
        self._switchboard = switchboard
        self._options = options
        self.is_draining = False

    def check(self, num_choices: int) -> None:
        """Raise ApiError where `num_choices` more cannot be taken now, or never."""
        if self.is_draining:
            raise ApiError(
                503, "The server is stopping and takes no more requests.", code="server_stopping", retry_after=5
            )
        if not self._service.health().is_alive:
            raise ApiError(503, "The engine has stopped.", code="engine_stopped", retry_after=30)
        room = self._service.model.max_rows + self._options.max_waiting
        if num_choices > room:
            raise ApiError(
                400,
                f"The request asks for {num_choices} answers, and the server takes {room} at a time. Send fewer.",
                code="too_many_choices",
                param="n",
            )
        if self._switchboard.num_open + num_choices > room:
            raise ApiError(
                429,
                f"{self._switchboard.num_open} answers are being made or waited for, and {room} is the limit. "
                "Try again soon.",
                code="queue_full",
                retry_after=1,
            )

    def why_not_ready(self) -> str | None:
        """Return why requests would not be answered now, None if they would."""
        health = self._service.health()
        if not health.is_alive:
            return f"the engine has stopped ({'it failed' if health.failure else 'it was closed'})"
        if self.is_draining:
            return "the server is stopping"
        if health.seconds_since_progress > self._options.stall_seconds:
            return f"the engine has made no progress for {health.seconds_since_progress:.1f} s"
        return None
