"""Writes the dashboard beside this file; its rows are said in the files whose names end in _row.

python deploy/grafana/build.py            write paradraft.json
python deploy/grafana/build.py --check    fail if it is not what would be written
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from engine_row import ENGINE
from panel import SOURCE, Json
from requests_row import REQUESTS
from speculation_row import SPECULATION

TARGET = Path(__file__).with_name("paradraft.json")
WIDTH = 24


def variable(name: str, query: str) -> Json:
    """Return a choice at the head of the board."""
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def rows() -> list[Json]:
    """Return all panels at their places."""
    placed: list[Json] = []
    y = 0
    for title, panels in {"Requests": REQUESTS, "Speculation": SPECULATION, "Engine": ENGINE}.items():
        place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        row = {"id": len(placed) + 1, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        placed.append(row)
        x, y, tallest = 0, y + 1, 0
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y = 0, y + tallest
                tallest = 0
            placed.append(panel.as_json(len(placed) + 1, x, y))
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
    return placed


def dashboard() -> Json:
    """Return the board."""
    return {
        "uid": "paradraft",
        "title": "Paradraft",
        "description": "Requests, speculation and engine of Paradraft servers; see docs/monitoring.md.",
        "tags": ["paradraft", "llm", "speculative-decoding"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                variable("model", "label_values(vllm:num_requests_running, model_name)"),
                variable("instance", 'label_values(vllm:num_requests_running{model_name=~"$model"}, instance)'),
            ]
        },
        "annotations": {"list": []},
        "panels": rows(),
    }


def text() -> str:
    """Return the file's text."""
    return json.dumps(dashboard(), indent=1) + "\n"


def main() -> None:
    if "--check" in sys.argv and TARGET.read_text(encoding="utf-8") != text():
        sys.exit(f"{TARGET.name} is not what {Path(__file__).name} writes. Run it.")
    TARGET.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
