"""Dashboard, alerts and their page agree with what the server tells; the real tools say so where they are installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest

from paradraft.core.records import FinishReason, Hindrance
from paradraft.observe.catalogue import METRICS, Kind
from support.source_tree import ROOT

RULES = (ROOT / "deploy" / "prometheus" / "paradraft.rules.yml").read_text(encoding="utf-8")
RULE_TESTS = (ROOT / "deploy" / "prometheus" / "paradraft.rules.test.yml").read_text(encoding="utf-8")
BOARD = json.loads((ROOT / "deploy" / "grafana" / "paradraft.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
ALERTS = re.findall(r"- alert: (\w+)", RULES)
NAMES = re.compile(r"\b(?:vllm:|paradraft_|process_)\w+")


def run_script(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def names_on_the_wire() -> set[str]:
    found = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
    for metric in METRICS.values():
        if metric.kind is Kind.HISTOGRAM:
            found |= {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")}
        else:
            found.add(metric.wire_name)
    return found


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian's package prometheus) is not installed")
def test_rules_are_read_and_tested_by_promtool() -> None:
    run_script("deploy/check.py", "rules")


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus (Debian's package) is not installed")
def test_every_query_has_a_value_in_a_prometheus_that_scrapes_a_server_at_work() -> None:
    run_script("deploy/check.py", "dashboard")


def test_the_dashboard_is_what_its_script_writes() -> None:
    run_script("deploy/grafana/build.py", "--check")


def test_queries_name_metrics_that_exist() -> None:
    asked = [target["expr"] for panel in PANELS for target in panel["targets"]]
    named = set(NAMES.findall("\n".join([*asked, RULES])))
    assert len(named) > 40
    assert named <= names_on_the_wire()


def test_the_dashboard_shows_every_metric() -> None:
    shown = set(NAMES.findall("\n".join(target["expr"] for panel in PANELS for target in panel["targets"])))
    stems = {re.sub(r"_(bucket|sum|count|total)$", "", name) for name in shown}
    hidden = {name for name in METRICS if name not in stems and METRICS[name].wire_name not in shown}
    assert hidden == {
        "paradraft_class_requests",
        "paradraft_engine_has_work",
        "paradraft_engine_last_progress_timestamp_seconds",
        "paradraft_engine_up",
        "paradraft_kv_cache_reuse_ratio",
        "paradraft_spec_request_acceptance_rate",
        "vllm:request_inference_time_seconds",
        "vllm:request_max_num_generation_tokens",
        "vllm:request_params_max_tokens",
        "vllm:request_params_n",
    }


def test_panels_say_what_they_show_and_do_not_overlap() -> None:
    assert [panel["title"] for panel in BOARD["panels"] if panel["type"] == "row"] == [
        "Requests",
        "Speculation",
        "Engine",
    ]
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    for panel in PANELS:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["type"] == "table" or all(target["legendFormat"] for target in panel["targets"]), panel["title"]


def test_every_alert_is_tested_and_has_a_line_on_the_page() -> None:
    assert len(ALERTS) == len(set(ALERTS)) > 10
    for alert in ALERTS:
        assert f"runbook: docs/monitoring.md#{alert.lower()}\n" in RULES
        assert f"### {alert}\n" in PAGE
        assert f"alertname: {alert}\n" in RULE_TESTS


def test_the_page_lists_every_metric_as_it_is() -> None:
    rows = re.findall(r"^\| `([\w:]+)` \| (\w+) \| ([\w, ]*) \| (.+?) \|", PAGE, re.MULTILINE)
    assert rows == [
        (metric.wire_name, str(metric.kind), ", ".join(metric.labels), metric.meaning) for metric in METRICS.values()
    ]


def test_the_page_lists_every_value_of_fixed_labels() -> None:
    assert not [why for why in Hindrance if f"\n| {why} | " not in PAGE]
    assert not [why for why in FinishReason if why not in PAGE.partition("`finished_reason` is")[2][:60]]
