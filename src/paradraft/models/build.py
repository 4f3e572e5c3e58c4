"""How a target is to be set up: as the caller puts it, and settled for the machine."""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.core.ports import Needs

AUTO, NATIVE, TORCH = "auto", "native", "torch"
RUNNERS = (AUTO, NATIVE, TORCH)


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """What computes a model's passes, and in which numbers."""

    dtype: str = AUTO  # auto, fp32, bf16, fp16, int8 or int4
    device: str = AUTO  # auto, cpu or cuda
    runner: str = AUTO  # auto, native or torch
    threads: int | None = None  # of a native pass; None: one per core


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """The same, settled, and the size of the cache."""

    dtype: str  # fp32, bf16, fp16, int8 or int4
    device: str  # cpu or cuda
    num_pages: int
    page_size: int
    num_threads: int  # of a native pass
    needs: Needs | None
