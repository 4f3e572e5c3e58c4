"""The doctor on machines that are described, not owned."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from paradraft.core.cores import usable_cores
from paradraft.lab.doctor.checks import examine
from paradraft.lab.doctor.facts import CacheFacts, Facts, NativeFacts, TorchFacts, ask_torch
from paradraft.lab.doctor.findings import Status
from paradraft.lab.machine import Machine, read_bandwidth, read_machine

GB = 1_000_000_000
MACHINE = Machine(
    system="Linux",
    architecture="x86_64",
    cpu="A processor",
    cpu_flags=frozenset({"avx2", "avx512f", "avx512_bf16"}),
    cores=4,
    load=0.1,
    memory_bytes=16 * GB,
    available_bytes=12 * GB,
    swap_used_bytes=0,
    nvidia_driver=None,
    python="3.11.7",
    omp_threads=None,
)
TORCH = TorchFacts(version="2.13.0", threads=4, pass_milliseconds={"bf16": (10.0, 11.0)})
NATIVE = NativeFacts(instruction_sets=("portable", "avx2"))
CACHE = CacheFacts(
    folder=Path("/cache"), is_writable=True, free_bytes=50 * GB, left_over=(), missing=(), model=Path("/cache/m.gguf")
)
FACTS = Facts(machine=MACHINE, bandwidth=27.0 * GB, torch=TORCH, native=NATIVE, cache=CACHE, has_matplotlib=True)


def finding(name: str, *, machine=None, torch=None, cache=None, **changes):
    facts = replace(
        FACTS,
        machine=replace(MACHINE, **(machine or {})),
        torch=replace(TORCH, **(torch or {})),
        cache=replace(CACHE, **(cache or {})),
        **changes,
    )
    return next(found for found in examine(facts) if found.name == name)


def test_a_sound_machine_has_nothing_to_remedy():
    assert {found.status for found in examine(FACTS)} == {Status.OK}


def test_every_warning_and_failure_comes_with_a_remedy():
    bad = Facts(
        machine=replace(MACHINE, available_bytes=GB // 2, load=9.0, omp_threads=64, cpu_flags=frozenset({"sse"})),
        bandwidth=1.0 * GB,
        torch=TorchFacts(failure="ended by signal 4"),
        native=NativeFacts(failure="libparadraft_native.so was not built."),
        cache=replace(CACHE, is_writable=False, missing=("smollm2-135m",)),
        has_matplotlib=False,
    )
    wrong = [found for found in examine(bad) if found.status != Status.OK]
    assert {found.name for found in wrong} == {
        "cpu", "threads", "load", "memory", "native", "torch", "cache", "model", "report"
    }  # fmt: skip
    assert all(found.remedy for found in wrong)


def test_the_native_core_names_its_instructions_or_why_it_cannot_run():
    assert "avx2 instructions" in finding("native").detail
    absent = finding("native", native=NativeFacts(failure="libparadraft_native.so was not built."))
    assert absent.status == Status.WARN
    assert "torch runs the passes: libparadraft_native.so was not built" in absent.detail
    assert "compiler" in absent.remedy


def test_a_silent_fall_to_the_cpu_is_named_when_torch_lacks_cuda():
    found = finding("device", machine={"nvidia_driver": "580.95"})
    assert found.status == Status.WARN
    assert "built without CUDA" in found.detail


def test_a_driver_too_old_for_the_wheel_is_named():
    found = finding("device", machine={"nvidia_driver": "470.82"}, torch={"cuda_build": "12.8"})
    assert found.status == Status.WARN
    assert "CUDA 12 needs driver 525 or later" in found.detail


def test_a_gpu_in_use_is_no_warning():
    found = finding("device", machine={"nvidia_driver": "580.95"}, torch={"cuda_build": "12.8", "cuda_devices": ("H",)})
    assert found.status == Status.OK


@pytest.mark.parametrize("facts", [{"machine": {"omp_threads": 16}}, {"torch": {"threads": 16}}])
def test_more_threads_than_cores_are_oversubscribed(facts):
    found = finding("threads", **facts)
    assert found.status == Status.WARN
    assert "OMP_NUM_THREADS=4" in found.remedy


def test_a_busy_machine_is_named_before_anybody_measures_on_it():
    assert finding("load", machine={"load": 6.0}).status == Status.WARN


@pytest.mark.parametrize(("available", "status"), [(0.5, Status.FAIL), (1.5, Status.WARN), (4.0, Status.OK)])
def test_memory_is_held_against_what_the_built_in_model_takes(available, status):
    assert finding("memory", machine={"available_bytes": int(available * GB)}).status == status


def test_arm_that_hangs_is_told_to_decode_plainly():
    found = finding("arm", machine={"architecture": "aarch64"}, torch={"failure": "no answer within 90 s"})
    assert found.status == Status.FAIL
    assert "--drafter none" in found.remedy


def test_arm_that_works_is_like_any_other():
    assert finding("arm", machine={"architecture": "aarch64"}).status == Status.OK


@pytest.mark.parametrize(
    ("flags", "word"), [({"avx2"}, "fp32"), ({"avx2", "amx_bf16"}, "bf16"), ({"asimd", "bf16"}, "fp32")]
)
def test_the_dtype_follows_from_the_processor(flags, word):
    assert finding("dtype", machine={"cpu_flags": frozenset(flags)}).detail.startswith(word)


def test_a_steep_pass_warns_that_drafts_cost():
    assert finding("pass", torch={"pass_milliseconds": {"bf16": (10.0, 30.0)}}).status == Status.WARN


def test_bandwidth_says_how_many_passes_memory_allows():
    assert "at most 100 in bf16, 50 in fp32" in finding("bandwidth").detail


def test_unfinished_downloads_are_named():
    assert "partial" in finding("cache", cache={"left_over": (".m.gguf.partial-x",)}).detail


def test_a_probe_that_hangs_is_stopped():
    facts = ask_torch([sys.executable, "-c", "import time; time.sleep(60)"], 0.5)
    assert facts.failure == "no answer within 0.5 s"


def test_a_probe_that_crashes_is_reported_with_its_signal():
    facts = ask_torch([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], 30.0)
    assert facts.failure == "ended by signal 9"


def test_a_probe_without_torch_gives_the_last_line_of_its_error():
    facts = ask_torch([sys.executable, "-c", "import no_such_module"], 30.0)
    assert "No module named 'no_such_module'" in facts.failure


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_machine_facts_are_read_from_proc_and_the_container(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    write(tmp_path, "proc/cpuinfo", "model name\t: Fast\nflags\t\t: avx2 amx_bf16\nmodel name\t: Fast\n")
    write(tmp_path, "proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 800 kB\nSwapTotal: 100 kB\nSwapFree: 40 kB\n")
    write(tmp_path, "proc/loadavg", "1.50 1.0 1.0 1/100 1")
    write(tmp_path, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue")
    write(tmp_path, "sys/fs/cgroup/memory.max", "512000")
    write(tmp_path, "sys/fs/cgroup/memory.current", "112000")
    machine = read_machine(tmp_path)
    assert (machine.cpu, machine.cpu_flags) == ("Fast", {"avx2", "amx_bf16"})
    assert (machine.memory_bytes, machine.available_bytes, machine.swap_used_bytes) == (1000 * 1024, 400_000, 60 * 1024)
    assert (machine.load, machine.nvidia_driver, machine.omp_threads) == (1.5, "535.54.03", 3)


def test_a_machine_without_proc_gives_unknowns(tmp_path):
    machine = read_machine(tmp_path)
    assert (machine.memory_bytes, machine.available_bytes, machine.load, machine.cpu_flags) == (None, None, None, set())


def test_a_containers_quota_bounds_the_cores(tmp_path):
    write(tmp_path, "sys/fs/cgroup/cpu.max", "100000 100000")
    assert usable_cores(tmp_path) == 1


def test_bandwidth_is_measured_in_bytes_per_second():
    assert 1e8 < read_bandwidth(1, sample_bytes=1 << 24, repeats=2) < 1e12
