"""Devices and number formats as torch knows them; models/place.py chooses."""

from __future__ import annotations

import torch

from paradraft.models.place import device_for, dtype_for

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(name: str) -> torch.device:
    """Return the device for auto, cpu or cuda; raise ConfigError for another name or a GPU that is not there."""
    return torch.device(device_for(name))


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the number format for auto, fp32, bf16 or fp16; auto takes bf16 where the device computes in it.

    Networks beside a target in int8 or int4 compute in bf16.
    """
    return DTYPES.get(dtype_for(name, device.type), torch.bfloat16)


def dtype_name(dtype: torch.dtype) -> str:
    """Return what the options call a number format: fp32, bf16 or fp16; others keep torch's name."""
    return next((name for name, known in DTYPES.items() if known == dtype), str(dtype).removeprefix("torch."))
