"""Checks the rules and the dashboard with the real tools, promtool and prometheus.

    python deploy/check.py rules         syntax of rules and configuration, and the rules' own tests
    python deploy/check.py dashboard     a Prometheus that scrapes a server at work: every query of the dashboard and
                                         every recording rule has to have a value

Debian and Ubuntu have both tools in the package prometheus. The server is the real one in front of a small engine whose
drafter is right now and then, and fails now and then.
"""

from __future__ import annotations

import json
import math
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx

from paradraft.core.records import Batch, Plan, Proposal
from paradraft.drafters.guard import GuardedDrafter
from paradraft.observe.metrics import ServingMetrics

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.fake_drafters import HalfRightDrafter
from support.serving import BYTES, Served, described, served, stub_engine
from support.stub_target import hashed_law

ROOT = Path(__file__).parents[1]
PROMETHEUS = ROOT / "deploy" / "prometheus"
DASHBOARD = ROOT / "deploy" / "grafana" / "paradraft.json"
NUM_CLIENTS = 4
WARM_UP = 22.0  # seconds: the deviation of acceptance needs three slots of five
PATIENCE = 60.0  # seconds more for values that are still missing
VARIABLES = {"$model": ".*", "$instance": ".*", "$__rate_interval": "15s"}


class MoodyDrafter(HalfRightDrafter):
    """Fails every hundredth time."""

    def __init__(self) -> None:
        super().__init__(hashed_law(BYTES), BYTES)
        self._turn = 0

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        """Propose, or fail."""
        self._turn += 1
        if self._turn % 100 == 0:
            raise OSError("in a mood")
        return super().propose(batch, plan)


def tool(name: str) -> str:
    """Return the path of a tool."""
    found = shutil.which(name)
    if found is None:
        sys.exit(f"{name} is not on the path. Install the package prometheus.")
    return found


def check_rules() -> None:
    """Let promtool read and test the rules."""
    promtool = tool("promtool")
    for command in (
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "paradraft.rules.yml"],
        ["test", "rules", "paradraft.rules.test.yml"],
    ):
        subprocess.run([promtool, *command], cwd=PROMETHEUS, check=True)


@contextmanager
def busy_server() -> Iterator[str]:
    """Run a server whose clients never rest, and yield its address."""
    engine = stub_engine(drafter=GuardedDrafter(MoodyDrafter(), vocab_size=BYTES))
    metrics = ServingMetrics(described(engine))
    with served(engine, observer=metrics, figures=metrics) as server, ThreadPoolExecutor(NUM_CLIENTS) as clients:
        stop_at = time.monotonic() + WARM_UP + PATIENCE + 60
        is_over = [False]
        working = [clients.submit(ask, server, at, stop_at, is_over) for at in range(NUM_CLIENTS)]
        try:
            yield server.url.removeprefix("http://")
        finally:
            is_over[0] = True
            for each in working:
                each.result()


def ask(server: Served, client: int, stop_at: float, is_over: list[bool]) -> None:
    """Send request after request, of several kinds."""
    turn = 0
    while time.monotonic() < stop_at and not is_over[0]:
        turn += 1
        body = {
            "prompt": list(range(32 + client, 56 + client)),
            "max_tokens": 8 + turn % 40,
            "temperature": 0,
            "ignore_eos": True,
            "n": 1 + turn % 2,
            "speculative": {"enabled": turn % 7 != 0},
            "metadata": {"class": f"turn-{turn % 3}"},
        }
        server.client.post("/v1/completions", json=body).raise_for_status()
        if turn % 10 == 0:
            server.client.post("/v1/completions", json={**body, "model": "another"})


@contextmanager
def prometheus(address: str) -> Iterator[httpx.Client]:
    """Run a Prometheus that scrapes an address every second, and yield a client of its interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
            f"rule_files: [{PROMETHEUS / 'paradraft.rules.yml'}]\n"
            f"scrape_configs: [{{job_name: paradraft, static_configs: [{{targets: ['{address}']}}]}}]\n",
            encoding="utf-8",
        )
        command = [
            tool("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ]
        with subprocess.Popen(command) as process:
            try:
                with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
                    yield client
            finally:
                process.terminate()


def queries() -> dict[str, str]:
    """Return every query of the dashboard by where it stands, with its variables filled in."""
    found = {}
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"]
            for variable, value in VARIABLES.items():
                query = query.replace(variable, value)
            found[f"{panel['title']}: {target['legendFormat']}"] = query
    return found


def recorded() -> dict[str, str]:
    """Return the name of every recording rule."""
    lines = (PROMETHEUS / "paradraft.rules.yml").read_text(encoding="utf-8").splitlines()
    names = [line.partition("record:")[2].strip() for line in lines if "record:" in line]
    return {f"rule {name}": name for name in names}


def has_value(client: httpx.Client, query: str) -> bool:
    """Whether a query has a value that is a number; raise ValueError for one that Prometheus cannot read."""
    answer = client.get("/api/v1/query", params={"query": query}).json()
    if answer["status"] != "success":
        raise ValueError(f"{query}: {answer['error']}")
    return any(not math.isnan(float(sample["value"][1])) for sample in answer["data"]["result"])


def check_dashboard() -> None:
    """Ask a Prometheus at work for everything the dashboard shows."""
    missing = queries() | recorded()
    total = len(missing)
    with busy_server() as address, prometheus(address) as client:
        time.sleep(WARM_UP)
        give_up = time.monotonic() + PATIENCE
        while missing and time.monotonic() < give_up:
            missing = {where: query for where, query in missing.items() if not has_value(client, query)}
            time.sleep(1.0 if missing else 0.0)
        groups = client.get("/api/v1/rules").json()["data"]["groups"]
    broken = [rule["name"] for group in groups for rule in group["rules"] if rule.get("lastError")]
    if missing or broken:
        sys.exit("\n".join([*(f"no value: {where}\n  {query}" for where, query in missing.items()), *broken]))
    print(f"All {total} queries have values.")


if __name__ == "__main__":
    wanted = sys.argv[1:]
    if wanted == ["rules"]:
        check_rules()
    elif wanted == ["dashboard"]:
        check_dashboard()
    else:
        sys.exit(__doc__)
