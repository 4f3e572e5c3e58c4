"""A panel said in a line or two, and Grafana's JSON of it."""

from __future__ import annotations

from dataclasses import dataclass, field

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLOURS = {
    "good": "#56A64B",
    "bad": "#E02F44",
    "warn": "#F2CC0C",
    "calm": "#3274D9",
    "other": "#8F3BB8",
    "faint": "#8E8E8E",
    "orange": "#FF780A",
    "cyan": "#37A2B4",
}
LATENCY_COLOURS = {"P50": "good", "P95": "warn", "P99": "bad"}
TOKENS_PER_SECOND = "suffix: tok/s"
Json = dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A picture. queries: PromQL by legend; $m in it stands for the chosen models and servers."""

    title: str
    says: str
    queries: dict[str, str]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    is_stacked: bool = False
    colours: dict[str, str] = field(default_factory=dict)  # by legend
    steps: tuple[tuple[str, float | None], ...] = ()  # colour from a value on
    top: float | None = None  # end of the axis

    @property
    def height(self) -> int:
        """Return its height on the grid."""
        return 4 if self.kind == "stat" else 8

    def as_json(self, number: int, x: int, y: int) -> Json:
        """Return it at a place."""
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.says,
            "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "targets": [self._query(at, legend, query) for at, (legend, query) in enumerate(self.queries.items())],
            "fieldConfig": {"defaults": self._defaults(), "overrides": self._overrides()},
            "options": _OPTIONS[self.kind],
        }

    def _query(self, at: int, legend: str, query: str) -> Json:
        shape = {"heatmap": "heatmap", "table": "table"}.get(self.kind, "time_series")
        return {
            "refId": chr(ord("A") + at),
            "datasource": SOURCE,
            "expr": query.replace("$m", 'model_name=~"$model",instance=~"$instance"'),
            "legendFormat": legend,
            "format": shape,
            "instant": self.kind == "table",
            "range": self.kind != "table",
        }

    def _defaults(self) -> Json:
        found: Json = {"unit": self.unit, "min": 0, "color": {"mode": "palette-classic"}}
        if self.top is not None:
            found["max"] = self.top
        if self.steps:
            found["thresholds"] = {
                "mode": "absolute",
                "steps": [{"color": COLOURS[name], "value": value} for name, value in self.steps],
            }
            if self.kind == "stat":
                found["color"] = {"mode": "thresholds"}
        if self.kind == "timeseries":
            found["custom"] = {
                "drawStyle": "line",
                "lineWidth": 1,
                "fillOpacity": 60 if self.is_stacked else 8,
                "showPoints": "never",
                "spanNulls": False,
                "stacking": {"mode": "normal" if self.is_stacked else "none", "group": "A"},
                "thresholdsStyle": {"mode": "line+area" if self.steps else "off"},
            }
        return found

    def _overrides(self) -> list[Json]:
        return [
            {
                "matcher": {"id": "byName", "options": legend},
                "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": COLOURS[colour]}}],
            }
            for legend, colour in self.colours.items()
        ]


_OPTIONS: dict[str, Json] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "area",
        "textMode": "auto",
    },
    "heatmap": {
        "calculate": False,
        "color": {"mode": "scheme", "scheme": "Spectral", "steps": 64},
        "yAxis": {"unit": "percentunit"},
        "cellGap": 1,
        "legend": {"show": True},
        "tooltip": {"show": True},
    },
    "table": {"showHeader": True},
}
