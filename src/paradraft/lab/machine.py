"""Facts about this machine, read without torch; where a file is absent (another system) the fact is None or empty."""

from __future__ import annotations

import os
import platform
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from paradraft.core.cores import usable_cores

_KIB = 1024
_SAMPLE_BYTES = 256 * 1024 * _KIB  # per thread; more than most caches hold


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What the programs on this machine can use."""

    system: str
    architecture: str
    cpu: str
    cpu_flags: frozenset[str]
    cores: int  # that this process may use, a container's share included
    load: float | None  # runnable programs, mean over a minute
    memory_bytes: int | None
    available_bytes: int | None  # a container's limit included
    swap_used_bytes: int | None
    nvidia_driver: str | None
    python: str
    omp_threads: int | None  # OMP_NUM_THREADS


def read_machine(root: Path = Path("/")) -> Machine:
    """Return the facts; `root` holds proc and sys."""
    memory = _read_pairs(root / "proc/meminfo")
    cpu = _read_pairs(root / "proc/cpuinfo")
    limit = _container_bytes_left(root)
    available = _kib(memory.get("MemAvailable"))
    swap_total, swap_free = _kib(memory.get("SwapTotal")), _kib(memory.get("SwapFree"))
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return Machine(
        system=platform.system(),
        architecture=platform.machine(),
        cpu=cpu.get("model name", platform.processor() or "unknown"),
        cpu_flags=frozenset(cpu.get("flags", cpu.get("Features", "")).split()),
        cores=usable_cores(root),
        load=_load(root),
        memory_bytes=_kib(memory.get("MemTotal")),
        available_bytes=available if limit is None else min(limit, available or limit),
        swap_used_bytes=None if swap_total is None or swap_free is None else swap_total - swap_free,
        nvidia_driver=_nvidia_driver(root),
        python=platform.python_version(),
        omp_threads=int(threads) if threads.isdigit() else None,
    )


def read_bandwidth(threads: int, sample_bytes: int = _SAMPLE_BYTES, repeats: int = 3) -> float:
    """Return the best of a few measurements of bytes read per second by this many threads."""
    parts = [np.ones(sample_bytes // 4, dtype=np.float32) for _ in range(threads)]
    return max(_read_once(parts) for _ in range(repeats))


def _read_once(parts: list[np.ndarray[tuple[int], np.dtype[np.float32]]]) -> float:
    workers = [threading.Thread(target=np.max, args=(part,)) for part in parts]
    start = perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(part.nbytes for part in parts) / (perf_counter() - start)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _read_pairs(path: Path) -> dict[str, str]:
    """Return `key: value` lines; the first of equal keys counts, as each core repeats them."""
    pairs: dict[str, str] = {}
    for line in _read(path).splitlines():
        key, _, value = line.partition(":")
        pairs.setdefault(key.strip(), value.strip())
    return pairs


def _kib(text: str | None) -> int | None:
    return int(text.split()[0]) * _KIB if text else None


def _load(root: Path) -> float | None:
    words = _read(root / "proc/loadavg").split()
    return float(words[0]) if words else None


def _container_bytes_left(root: Path) -> int | None:
    limit = _read(root / "sys/fs/cgroup/memory.max").strip()
    used = _read(root / "sys/fs/cgroup/memory.current").strip()
    return max(0, int(limit) - int(used)) if limit.isdigit() and used.isdigit() else None


def _nvidia_driver(root: Path) -> str | None:
    """Return the version of the loaded NVIDIA driver, "unknown" where only its tool is found."""
    words = _read(root / "proc/driver/nvidia/version").split()
    version = next((word for word in words if word.replace(".", "").isdigit() and "." in word), None)
    return version or ("unknown" if shutil.which("nvidia-smi") else None)
