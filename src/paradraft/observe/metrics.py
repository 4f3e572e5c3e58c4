"""The observer that a server has beside it, and the page that Prometheus reads."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Lock

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, ProcessCollector, generate_latest

from paradraft.core.events import TokenEvent
from paradraft.core.ports import Clock
from paradraft.core.requests import Request
from paradraft.core.serving import EngineSnapshot, Health, ServedModel
from paradraft.observe.labels import BoundedLabels
from paradraft.observe.page import Page
from paradraft.observe.pages import add_drafts, add_engine, add_health, add_requests
from paradraft.observe.requests import RequestTallies

MAX_CLASSES = 16  # of prompts that figures are kept apart for
MAX_FAULT_KINDS = 16


class ServingMetrics:
    """Counts requests as they pass and writes all figures out. Any thread may render while another one tells.

    `clock` is the one whose times it is told, `wall` tells seconds since 1970. `engine` tells apart several engines of
    one model.
    """

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(
        self,
        model: ServedModel,
        *,
        engine: str = "0",
        max_classes: int = MAX_CLASSES,
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
    ) -> None:
        self._model = model
        self._labels = {"model_name": _printable(model.name), "engine": engine}
        self._clock = clock
        self._wall = wall
        self._lock = Lock()
        self._tallies = RequestTallies(longest=model.longest, max_classes=max_classes)
        self._fault_kinds = BoundedLabels(MAX_FAULT_KINDS)
        self._process = ProcessCollector(registry=None)

    def arrived(self, request: Request, now: float) -> None:
        """Note a request that was accepted."""
        with self._lock:
            self._tallies.arrive(request, now)

    def told(self, events: Sequence[TokenEvent], now: float) -> None:
        """Note what a step told."""
        with self._lock:
            self._tallies.tell(events, now)

    def refused(self, status: int, reason: str) -> None:
        """Note a request that was answered with an error before it was queued."""
        with self._lock:
            self._tallies.refuse(status, reason)

    def render(self, snapshot: EngineSnapshot, health: Health) -> bytes:
        """Return the page in Prometheus' text format."""
        page = Page(self._labels)
        with self._lock:
            add_requests(page, self._tallies, self._clock())
            add_drafts(page, snapshot, self._model, self._fault_kinds)
        add_engine(page, snapshot, self._model)
        add_health(page, health, self._wall())
        registry = CollectorRegistry(auto_describe=False)
        registry.register(page)
        registry.register(self._process)
        return generate_latest(registry)


def _printable(name: str) -> str:
    return "".join(character if character.isprintable() else "_" for character in name)
