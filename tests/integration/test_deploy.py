"""The container files keep to what operators expect; they are read, not run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.source_tree import ROOT

FOLDER = ROOT / "deploy"
CONTAINERFILE = (FOLDER / "Containerfile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def service(compose):
    return compose["services"]["paradraft"]


@pytest.fixture(scope="module")
def prometheus(compose):
    return compose["services"]["prometheus"]


def last_stage() -> str:
    return CONTAINERFILE.rpartition("\nFROM ")[2]


def seconds(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([sm])", text).groups()
    return int(number) * {"s": 1, "m": 60}[unit]


def value_of(service, option: str) -> str:
    [value] = [part.partition("=")[2] for part in service["command"] if part.startswith(f"{option}=")]
    return value


def test_nobody_runs_as_root(service, prometheus):
    user = re.search(r"^USER (\d+):(\d+)$", last_stage(), re.MULTILINE)
    assert int(user[1]) > 0
    assert service["user"] == f"{user[1]}:{user[2]}"
    assert int(prometheus["user"].partition(":")[0]) > 0
    for each in (service, prometheus):
        assert each["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in each["security_opt"]
        assert "privileged" not in each


def test_the_file_system_is_read_only_but_for_what_is_named(service, prometheus):
    assert service["read_only"] is prometheus["read_only"] is True
    assert [entry.split(":")[1:] for entry in prometheus["volumes"]] == [["/etc/prometheus", "ro"], ["/prometheus"]]
    assert [entry.split(":")[0] for entry in service["tmpfs"]] == ["/tmp"]
    assert "noexec" in service["tmpfs"][0]
    assert [entry.split(":")[1] for entry in service["volumes"]] == ["/home/paradraft/.cache"]


def test_keys_come_from_a_secret_and_stand_in_no_file(compose, service):
    [secret] = service["secrets"]
    assert f"--api-keys=/run/secrets/{secret}" in service["command"]
    assert set(compose["secrets"][secret]) == {"file"}
    assert "environment" not in service
    assert "API_KEYS" not in CONTAINERFILE
    assert "/deploy/secrets/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_only_loopback_is_published(service):
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_metrics_stay_on_a_loopback_that_only_prometheus_shares(service, prometheus):
    port = value_of(service, "--metrics-port")
    assert not [part for part in service["command"] if part.startswith("--metrics-host")]
    assert not [published for published in service["ports"] if published.endswith(f":{port}")]
    assert prometheus["network_mode"] == "service:paradraft"
    [scraped] = yaml.safe_load((FOLDER / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": [f"127.0.0.1:{port}"]}]
    assert "authorization" not in scraped


def test_probes_ask_for_health_and_wait_for_the_model(service):
    port = value_of(service, "--metrics-port")
    assert f":{port}/health/ready" in service["healthcheck"]["test"][-1]
    assert seconds(service["healthcheck"]["start_period"]) >= 300
    assert "/health/ready" in last_stage()
    assert "HEALTHCHECK" in last_stage()


def test_it_may_take_longer_to_end_than_to_drain(service):
    assert seconds(service["stop_grace_period"]) >= int(value_of(service, "--drain")) + 10
    assert "STOPSIGNAL SIGTERM" in last_stage()


def test_memory_and_processes_are_bounded(service, prometheus):
    for each in (service, prometheus):
        assert each["mem_limit"] == each["memswap_limit"]
        assert each["pids_limit"] > 0
        assert each["logging"]["options"]["max-size"]


def test_what_is_copied_exists_and_nothing_else_is_sent():
    sent = (FOLDER / "Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert sent[0] == "*"
    copied = [
        name for line in re.findall(r"^COPY (?!--from)(.+)$", CONTAINERFILE, re.MULTILINE) for name in line.split()[:-1]
    ]
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in sent, name


def test_the_options_of_both_files_are_options_of_the_command(service):
    told = subprocess.run(
        [Path(sys.executable).parent / "paradraft", "serve", "--help"], capture_output=True, text=True, check=True
    ).stdout
    used = [*service["command"], *re.findall(r'"(--[a-z-]+)"', last_stage())]
    assert used
    for option in used:
        assert option.partition("=")[0] in told
