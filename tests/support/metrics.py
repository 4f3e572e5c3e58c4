"""Pages of metrics, made from an engine over the stub target and read as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from paradraft.core.events import TokenEvent
from paradraft.core.ports import Drafter
from paradraft.core.requests import Request
from paradraft.core.sampling import SamplingParams
from paradraft.core.serving import EngineSnapshot, Health, ServedModel
from paradraft.engine.engine import Engine
from paradraft.observe.metrics import ServingMetrics
from support.engines import GREEDY, LAW, VOCAB, build_engine, request
from support.fake_drafters import HalfRightDrafter
from support.speakers import ManualClock

MODEL = ServedModel(
    name="stub/model",
    created=1,
    drafter="fake",
    rule="coupled",
    is_exact=True,
    dtype="fp32",
    runner="stub",
    vocab_size=VOCAB,
    longest=512,
    gamma=4,
    max_rows=8,
)
IDLE = Health(is_alive=True, has_work=False, seconds_since_progress=0.0)
STEP = 0.010  # seconds between steps, as the observer is told

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read_page(page: bytes) -> Samples:
    """Return every sample by its name and labels, without model_name and engine."""
    found: Samples = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name not in ("model_name", "engine")}
            key = sample.name, tuple(sorted(labels.items()))
            assert key not in found, f"{key} comes twice"
            found[key] = sample.value
    return found


class Watched:
    """An engine whose requests metrics watch, on a clock that moves STEP with each step."""

    def __init__(self, drafter: Drafter | None = None, *, max_classes: int = 16, **options: object) -> None:
        self.clock = ManualClock()
        self.engine: Engine = build_engine(drafter or HalfRightDrafter(LAW, VOCAB), **options)
        self.metrics = ServingMetrics(MODEL, max_classes=max_classes, clock=self.clock, wall=lambda: 1000.0)
        self.events: list[TokenEvent] = []

    def add(self, *requests: Request) -> None:
        for each in requests:
            self.metrics.arrived(each, self.clock.now)
            self.engine.add(each)

    def tell(self, events: Iterable[TokenEvent]) -> None:
        told = list(events)
        self.events += told
        self.metrics.told(told, self.clock.now)

    def run(self, *requests: Request) -> None:
        self.add(*requests)
        while self.engine.has_work:
            self.clock.now += STEP
            self.tell(self.engine.step())

    def snapshot(self) -> EngineSnapshot:
        return self.engine.snapshot()

    def samples(self, health: Health = IDLE) -> Samples:
        return read_page(self.metrics.render(self.engine.snapshot(), health))

    def value(self, name: str, **labels: str) -> float:
        return self.samples()[name, tuple(sorted(labels.items()))]


def asked(name: str, params: SamplingParams = GREEDY, *, label: str = "") -> Request:
    return replace(request(name, [3, 1, 4, 1, 5, 9, 2, 6], params), label=label)
