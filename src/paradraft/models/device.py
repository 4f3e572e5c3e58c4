"""Which device and number format a model runs in when the user leaves it open."""

from __future__ import annotations

from pathlib import Path

import torch

from paradraft.core.errors import ConfigError

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_CPU_FACTS = Path("/proc/cpuinfo")
_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})


def choose_device(name: str) -> torch.device:
    """Return the device for auto, cpu or cuda; raise ConfigError for another name or a GPU that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device='cuda' is not available: torch finds no GPU.", remedy="Use device='cpu' or 'auto'.")
    if name not in ("cpu", "cuda"):
        raise ConfigError(f"device={name!r} is not known.", remedy="Choose one of auto, cpu, cuda.")
    return torch.device(name)


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the number format for auto, fp32, bf16 or fp16; auto takes bf16 where the device computes in it."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" or cpu_has_bf16() else torch.float32
    if name not in DTYPES:
        raise ConfigError(f"dtype={name!r} is not known.", remedy=f"Choose one of auto, {', '.join(DTYPES)}.")
    return DTYPES[name]


def dtype_name(dtype: torch.dtype) -> str:
    """Return what the options call a number format: fp32, bf16 or fp16; others keep torch's name."""
    return next((name for name, known in DTYPES.items() if known == dtype), str(dtype).removeprefix("torch."))


def cpu_has_bf16(facts: Path = _CPU_FACTS) -> bool:
    """Whether this processor multiplies in bf16 (AVX512-BF16 or AMX); where the system does not say, it does not."""
    try:
        lines = facts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    return not _BF16_FLAGS.isdisjoint(flags)
