"""Who may come in: a bound on what waits, and nobody once the server is on its way out."""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.core.serving import Service
from paradraft.server.errors import ApiError
from paradraft.server.options import ServerOptions
from paradraft.server.switchboard import Switchboard


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """How refusals speak of what is asked for."""

    name: str
    noun: str
    param: str
    asks: str
    waits: str


_CHOICES = _Asked(name="choices", noun="answers", param="n", asks="asks for", waits="are being made or waited for")
_TEXTS = _Asked(name="texts", noun="texts", param="input", asks="brings", waits="wait for their embeddings")


class Admission:
    """Decides whether a request is taken, before any of it is queued."""

    def __init__(self, service: Service, switchboard: Switchboard, options: ServerOptions) -> None:
        self._service = service
        self._switchboard = switchboard
        self._options = options
        self.is_draining = False

    def check_early(self, num_choices: int) -> None:
        """Raise ApiError where there is no room for `num_choices` more, before work is put into their prompt.

        `check` has the last word: it asks the engine, too, just before the request is queued.
        """
        self._check_draining()
        room = self._service.model.max_rows + self._options.max_waiting
        self._check_room(_CHOICES, num_choices, room, self._switchboard.num_open, "")

    def check(self, num_choices: int, tenant: str) -> None:
        """Raise ApiError where `num_choices` more of this tenant cannot be taken now, or never."""
        self._check_engine()
        self.check_early(num_choices)
        if self._options.max_per_key and tenant:
            open_now = self._switchboard.num_open_of(tenant)
            self._check_room(_CHOICES, num_choices, self._options.max_per_key, open_now, " with this API key")

    def check_texts(self, count: int, tenant: str) -> None:
        """Raise ApiError where `count` more texts of this tenant cannot be embedded now, or never."""
        self._check_engine()
        self._check_draining()
        options, board = self._options, self._switchboard
        self._check_room(_TEXTS, count, options.max_prompts + options.max_waiting, board.num_texts, "")
        if options.max_per_key and tenant:
            self._check_room(_TEXTS, count, options.max_per_key, board.num_texts_of(tenant), " with this API key")

    def _check_draining(self) -> None:
        if self.is_draining:
            raise ApiError(
                503, "The server is stopping and takes no more requests.", code="server_stopping", retry_after=5
            )

    def _check_engine(self) -> None:
        health = self._service.health()
        if not health.is_alive:
            raise ApiError(503, "The engine has stopped.", code="engine_stopped", retry_after=30)
        if health.seconds_since_progress > self._options.stall_seconds:
            raise ApiError(503, "The engine makes no progress.", code="engine_stalled", retry_after=5)

    def _check_room(self, asked: _Asked, count: int, room: int, num_open: int, whose: str) -> None:
        if count > room:
            raise ApiError(
                400,
                f"The request {asked.asks} {count} {asked.noun}, and {room} are taken at a time{whose}. Send fewer.",
                code=f"too_many_{asked.name}",
                param=asked.param,
            )
        if num_open + count > room:
            raise ApiError(
                429,
                f"{num_open} {asked.noun} {asked.waits}{whose}, and {room} is the limit. Try again soon.",
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
