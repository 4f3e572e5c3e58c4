"""Which device and number format a model runs in when the user leaves it open, by name and without torch."""

from __future__ import annotations

from pathlib import Path

from paradraft.core.errors import ConfigError

DEVICE_NAMES = ("cpu", "cuda")
DTYPE_NAMES = ("fp32", "bf16", "fp16", "int8", "int4")
_GPU_NODES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # how Linux and WSL show a driver
_CPU_FACTS = Path("/proc/cpuinfo")
_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})


def device_for(name: str) -> str:
    """Return cpu or cuda for auto, cpu or cuda; raise ConfigError for another name or a GPU that is not there."""
    if name == "auto":
        return "cuda" if may_have_gpu() and torch_finds_gpu() else "cpu"
    if name == "cuda" and not torch_finds_gpu():
        raise ConfigError("device='cuda' is not available: torch finds no GPU.", remedy="Use device='cpu' or 'auto'.")
    if name not in DEVICE_NAMES:
        raise ConfigError(f"device={name!r} is not known.", remedy=f"Choose one of auto, {', '.join(DEVICE_NAMES)}.")
    return name


def dtype_for(name: str, device: str) -> str:
    """Return one of DTYPE_NAMES for itself, or for auto, which takes bf16 where the device computes in it."""
    if name == "auto":
        return "bf16" if device == "cuda" or cpu_has_bf16() else "fp32"
    if name not in DTYPE_NAMES:
        raise ConfigError(f"dtype={name!r} is not known.", remedy=f"Choose one of auto, {', '.join(DTYPE_NAMES)}.")
    return name


def may_have_gpu() -> bool:
    """Whether a driver for GPUs is loaded, so that it is worth the time to ask torch."""
    return any(node.exists() for node in _GPU_NODES)


def torch_finds_gpu() -> bool:
    """Whether torch can run on a GPU."""
    import torch  # takes most of a second, so it is imported where a GPU is likely

    return torch.cuda.is_available()


def cpu_has_bf16(facts: Path = _CPU_FACTS) -> bool:
    """Whether this processor multiplies in bf16 (AVX512-BF16 or AMX); where the system does not say, it does not."""
    try:
        lines = facts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    return not _BF16_FLAGS.isdisjoint(flags)
