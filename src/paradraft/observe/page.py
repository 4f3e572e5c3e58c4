"""Samples of catalogued metrics, as families that prometheus-client writes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.utils import floatToGoString

from paradraft.core.spread import Spread
from paradraft.observe.catalogue import METRICS, Kind

Labels = str | tuple[str, ...]
Key = TypeVar("Key", bound=Labels)


class Page:
    """Collects the samples of one scrape; all carry the same first labels."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._names = tuple(labels)
        self._values = tuple(labels.values())
        self._families: list[Family] = []

    def collect(self) -> Iterable[Family]:
        """Return the families so far."""
        return self._families

    def number(self, name: str, value: float) -> None:
        """Add a counter or gauge without labels of its own."""
        self.numbers(name, {(): value})

    def numbers(self, name: str, values: Mapping[Key, float]) -> None:
        """Add a counter or gauge with one sample for each of its label values."""
        metric = METRICS[name]
        made = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
        family = made(metric.name, metric.meaning, labels=[*self._names, *metric.labels])
        for own, value in values.items():
            family.add_metric([*self._values, *_tuple(own)], value)
        self._families.append(family)

    def spread(self, name: str, spread: Spread) -> None:
        """Add a histogram without labels of its own."""
        self.spreads(name, {(): spread})

    def spreads(self, name: str, spreads: Mapping[Key, Spread]) -> None:
        """Add a histogram for each of the label values."""
        metric = METRICS[name]
        family = HistogramMetricFamily(metric.name, metric.meaning, labels=[*self._names, *metric.labels])
        for own, spread in spreads.items():
            bounds = [*map(floatToGoString, spread.bounds), "+Inf"]
            buckets = list(zip(bounds, accumulate(spread.counts), strict=True))
            family.add_metric([*self._values, *_tuple(own)], buckets=buckets, sum_value=spread.total)
        self._families.append(family)


def _tuple(labels: Labels) -> tuple[str, ...]:
    return (labels,) if isinstance(labels, str) else labels
