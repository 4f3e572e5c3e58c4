"""Brings the events of the engine's thread to the requests that wait for them on the event loop."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from paradraft.core.events import TokenEvent
from paradraft.core.ports import Clock
from paradraft.core.requests import Request
from paradraft.core.serving import Observer, Service

Burst = list[tuple[int, TokenEvent]]  # each event with the index of its request


class Inbox:
    """The events of one HTTP request, which may stand for several of the engine's."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._index = {request.request_id: index for index, request in enumerate(requests)}
        self._events: deque[tuple[int, TokenEvent]] = deque()
        self._num_open = sum(request.params.n for request in requests)
        self._has_mail = asyncio.Event()

    @property
    def is_finished(self) -> bool:
        """Whether every choice has had its last event, read or not."""
        return self._num_open == 0

    def put(self, event: TokenEvent) -> None:
        """Take an event."""
        self._events.append((self._index[event.request_id], event))
        self._num_open -= event.finish_reason is not None
        self._has_mail.set()

    def ring(self) -> None:
        """Let whoever waits for a burst go on, even with nothing."""
        self._has_mail.set()

    async def burst(self) -> Burst:
        """Return what has come since the last time, once there is something, or nothing if it was rung for."""
        await self._has_mail.wait()
        self._has_mail.clear()
        burst = list(self._events)
        self._events.clear()
        return burst


class Switchboard:
    """Owns who waits for which request. All of it runs on the event loop, except `deliver`."""

    def __init__(self, service: Service, observer: Observer, *, clock: Clock = time.monotonic) -> None:
        self._service = service
        self._observer = observer
        self._clock = clock
        self._inboxes: dict[str, Inbox] = {}
        self._open: dict[str, tuple[str, int]] = {}  # tenant and choices still open, by request; read or not
        self._num_open = 0
        self._by_tenant: Counter[str] = Counter()
        self._texts: Counter[str] = Counter()  # being embedded, by tenant
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def num_open(self) -> int:
        """Return how many choices run or wait."""
        return self._num_open

    def num_open_of(self, tenant: str) -> int:
        """Return how many choices of one tenant run or wait."""
        return self._by_tenant[tenant]

    @property
    def num_texts(self) -> int:
        """Return how many texts wait for their embeddings."""
        return self._texts.total()

    def num_texts_of(self, tenant: str) -> int:
        """Return how many texts of one tenant wait for their embeddings."""
        return self._texts[tenant]

    @contextmanager
    def embedding(self, count: int, tenant: str) -> Iterator[None]:
        """Count so many texts as waiting until the block ends."""
        self._texts[tenant] += count
        try:
            yield
        finally:
            self._texts[tenant] -= count
            if not self._texts[tenant]:
                del self._texts[tenant]

    def bind(self) -> None:
        """Make the running event loop the one that events come to."""
        self._loop = asyncio.get_running_loop()

    def deliver(self, events: Sequence[TokenEvent]) -> None:
        """Take the events of a step, on the engine's thread; one hand-over for all of them."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._distribute, events)

    @contextmanager
    def open(self, requests: Sequence[Request]) -> Iterator[Inbox]:
        """Submit the requests and yield their inbox; what has not ended when the block does is cancelled."""
        inbox = Inbox(requests)
        now = self._clock()
        for request in requests:
            self._inboxes[request.request_id] = inbox
            self._count_in(request)
            self._observer.arrived(request, now)
        try:
            for request in requests:
                self._service.submit(request)
            yield inbox
        finally:
            for request in requests:
                del self._inboxes[request.request_id]
                if not inbox.is_finished:
                    self._service.cancel(request.request_id)

    async def until_idle(self, timeout: float) -> bool:
        """Wait until no choice and no text runs or waits; False if that takes longer than `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while self._num_open or self._inboxes or self._texts:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            return False
        return True

    def _distribute(self, events: Sequence[TokenEvent]) -> None:
        self._observer.told(events, self._clock())
        for event in events:
            if event.finish_reason is not None:
                self._count_out(event.request_id)
            inbox = self._inboxes.get(event.request_id)
            if inbox is not None:
                inbox.put(event)

    def _count_in(self, request: Request) -> None:
        self._open[request.request_id] = (request.tenant, request.params.n)
        self._num_open += request.params.n
        self._by_tenant[request.tenant] += request.params.n

    def _count_out(self, request_id: str) -> None:
        """Note that one choice has ended; an end that is told twice counts once."""
        tenant, left = self._open.pop(request_id, ("", 0))
        if not left:
            return
        if left > 1:
            self._open[request_id] = (tenant, left - 1)
        self._num_open -= 1
        self._by_tenant[tenant] -= 1
        if not self._by_tenant[tenant]:
            del self._by_tenant[tenant]
