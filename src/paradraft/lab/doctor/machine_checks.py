"""Checks on processor, memory and files."""

from __future__ import annotations

from collections.abc import Iterator

from paradraft.lab.doctor.facts import Facts
from paradraft.lab.doctor.findings import Finding, fail, ok, warn

_GB = 1e9
_MODEL_BYTES = {"bf16": 0.27 * _GB, "fp32": 0.54 * _GB}  # weights of the built-in model
_LEAST_MEMORY, _GOOD_MEMORY = 1.0 * _GB, 2.0 * _GB  # built-in model, torch and cache in fp32
_LEAST_DISK = 0.5 * _GB
_CPU_FEATURES = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_bf16": "AVX512-BF16",
    "avx512_vnni": "AVX512-VNNI",
    "avx_vnni": "AVX-VNNI",
    "amx_bf16": "AMX-BF16",
    "amx_int8": "AMX-INT8",
    "asimd": "NEON",
    "bf16": "ARM-BF16",
    "i8mm": "ARM-I8MM",
}


def check_cpu(facts: Facts) -> Iterator[Finding]:
    """Which vector instructions the processor has."""
    machine = facts.machine
    names = [name for flag, name in _CPU_FEATURES.items() if flag in machine.cpu_flags]
    detail = f"{machine.cpu}, {machine.architecture}: {', '.join(names) or 'no known vector instructions'}"
    if machine.architecture in ("x86_64", "AMD64") and "avx2" not in machine.cpu_flags and machine.cpu_flags:
        yield warn(
            "cpu", detail, "Without AVX2 torch is slow; use another machine, or a virtual CPU that passes it on."
        )
    else:
        yield ok("cpu", detail)


def check_cores(facts: Facts) -> Iterator[Finding]:
    """Whether more threads than cores are used, or other programs use them."""
    machine, threads = facts.machine, facts.torch.threads
    detail = f"{machine.cores} usable cores, torch uses {threads or 'an unknown number of'} threads"
    if max(threads, machine.omp_threads or 0) > machine.cores:
        yield warn(
            "threads",
            f"{detail}, OMP_NUM_THREADS is {machine.omp_threads}: more threads than cores wait for each other",
            f"Set OMP_NUM_THREADS={machine.cores} or `--set threads={machine.cores}`.",
        )
    else:
        yield ok("threads", detail)
    if _is_busy(facts):
        yield warn(
            "load",
            f"{machine.load:.1f} programs want {machine.cores} cores: every measurement will be too slow and noisy",
            "Stop other programs before measuring.",
        )


def _is_busy(facts: Facts) -> bool:
    return facts.machine.load is not None and facts.machine.load > facts.machine.cores + 0.5


def check_memory(facts: Facts) -> Iterator[Finding]:
    """Whether the built-in model fits."""
    machine = facts.machine
    if machine.available_bytes is None:
        yield ok("memory", "unknown on this system")
        return
    available = machine.available_bytes
    detail = f"{available / _GB:.1f} GB available"
    remedy = "Close programs, raise the container's limit, or use `--dtype bf16` and a lower kv_tokens."
    if available < _LEAST_MEMORY:
        yield fail("memory", f"{detail}, the built-in model needs {_LEAST_MEMORY / _GB:.0f} GB", remedy)
    elif available < _GOOD_MEMORY:
        yield warn("memory", f"{detail}: enough for the built-in model in bf16, tight in fp32", remedy)
    else:
        yield ok("memory", detail)
    if machine.swap_used_bytes and machine.swap_used_bytes > _GB and available < _GOOD_MEMORY:
        yield warn(
            "swap", f"{machine.swap_used_bytes / _GB:.1f} GB are swapped out", "Weights on disk are slow; free memory."
        )


def check_bandwidth(facts: Facts) -> Iterator[Finding]:
    """How many passes a second memory allows."""
    limits = ", ".join(f"{facts.bandwidth / size:.0f} in {dtype}" for dtype, size in _MODEL_BYTES.items())
    shared = " while other programs ran" if _is_busy(facts) else ""
    yield ok(
        "bandwidth",
        f"{facts.bandwidth / _GB:.1f} GB/s read from memory{shared}: at most {limits} passes a second of the "
        "built-in model; one pass gives one token plainly, several with accepted drafts",
    )


def check_cache(facts: Facts) -> Iterator[Finding]:
    """Whether files can be kept."""
    cache = facts.cache
    detail = f"{cache.folder}, {cache.free_bytes / _GB:.1f} GB free"
    remedy = "Point PARADRAFT_CACHE at a folder with space that you may write to."
    if not cache.is_writable:
        yield fail("cache", f"{detail}: not writable", remedy)
    elif cache.free_bytes < _LEAST_DISK:
        yield warn("cache", f"{detail}: too little for a download", remedy)
    elif cache.left_over:
        yield warn("cache", f"{detail}; unfinished: {', '.join(cache.left_over)}", "Run `paradraft models pull` again.")
    else:
        yield ok("cache", detail)


def check_model(facts: Facts) -> Iterator[Finding]:
    """Whether the built-in model is there."""
    if "smollm2-135m" in facts.cache.missing:
        yield warn("model", "smollm2-135m is not in the cache yet", "Run `paradraft models pull smollm2-135m`.")
    else:
        yield ok("model", f"smollm2-135m in {facts.cache.model}; it starts without a network")


def check_report(facts: Facts) -> Iterator[Finding]:
    """Whether pictures can be drawn."""
    if facts.has_matplotlib:
        yield ok("report", "matplotlib draws the pictures of `paradraft bench --html`")
    else:
        yield warn("report", "no matplotlib, so `--html` is refused", "Run `pip install 'paradraft[report]'`.")
