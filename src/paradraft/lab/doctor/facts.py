"""The facts that the checks read."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from paradraft.core.errors import ParadraftError
from paradraft.hub.assets import ASSETS, asset_path, is_cached
from paradraft.hub.cache import cache_folder
from paradraft.lab.machine import Machine, read_bandwidth, read_machine
from paradraft.native.library import load_library

_PROBE = "paradraft.lab.doctor.torch_probe"
_PROBE_SECONDS = 90.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchFacts:
    """What torch finds; `failure` tells why it could not be asked."""

    version: str = ""
    cuda_build: str | None = None  # CUDA version the wheel was built for
    cuda_devices: tuple[str, ...] = ()
    threads: int = 0
    pass_milliseconds: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # by dtype: 1 row, 8 rows
    failure: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeFacts:
    """What the native core offers; `failure` tells why it cannot run."""

    instruction_sets: tuple[str, ...] = ()  # the fastest last
    failure: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheFacts:
    """Where files are kept."""

    folder: Path
    is_writable: bool
    free_bytes: int
    left_over: tuple[str, ...]  # partial downloads
    missing: tuple[str, ...]  # built-in assets that are not there
    model: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Everything the doctor knows."""

    machine: Machine
    bandwidth: float  # bytes per second read by all usable cores together
    torch: TorchFacts
    native: NativeFacts
    cache: CacheFacts
    has_matplotlib: bool


def gather_facts() -> Facts:
    """Look at the machine; takes a few seconds, most of them torch's."""
    machine = read_machine()
    return Facts(
        machine=machine,
        bandwidth=read_bandwidth(machine.cores),
        torch=ask_torch([sys.executable, "-m", _PROBE], _PROBE_SECONDS),
        native=_ask_native(),
        cache=_read_cache(),
        has_matplotlib=importlib.util.find_spec("matplotlib") is not None,
    )


def ask_torch(command: list[str], seconds: float) -> TorchFacts:
    """Run the probe under a time limit; a crash, a hang and a missing torch all become a `failure`."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return TorchFacts(failure=f"no answer within {seconds:g} s")
    if done.returncode < 0:
        return TorchFacts(failure=f"ended by signal {-done.returncode}")
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return TorchFacts(failure=lines[-1] if lines else f"exit status {done.returncode}")
    found = json.loads(done.stdout)
    return TorchFacts(
        version=found["version"],
        cuda_build=found["cuda_build"],
        cuda_devices=tuple(found["cuda_devices"]),
        threads=found["threads"],
        pass_milliseconds={dtype: (one, eight) for dtype, (one, eight) in found["pass_milliseconds"].items()},
    )


def _ask_native() -> NativeFacts:
    try:
        return NativeFacts(instruction_sets=load_library().instruction_sets)
    except ParadraftError as error:
        return NativeFacts(failure=error.problem)


def _read_cache() -> CacheFacts:
    folder = cache_folder()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    model = asset_path("smollm2-135m")
    partial = model.parent.glob(".*.partial-*") if model.parent.is_dir() else ()
    return CacheFacts(
        folder=folder,
        is_writable=os.access(existing, os.W_OK),
        free_bytes=shutil.disk_usage(existing).free,
        left_over=tuple(sorted(path.name for path in partial)),
        missing=tuple(name for name in ASSETS if not is_cached(name)),
        model=model,
    )
