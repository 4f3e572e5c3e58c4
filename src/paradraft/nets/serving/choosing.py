"""What runs a drafting network, and in which number format."""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.core.errors import ConfigError
from paradraft.core.ports import Target
from paradraft.models.packed_parts import KINDS
from paradraft.native.runner import NativeRunner
from paradraft.nets.config import NetConfig

AUTO = "auto"
NATIVE_METHODS = ("dflash", "dspark", "eagle3", "peagle")
_NATIVE_ONLY = frozenset({"int8", "int4"})
_MOST_HEAD_DIM = 1024  # of the native core


@dataclass(frozen=True, kw_only=True, slots=True)
class NetRunning:
    """How a network runs."""

    is_native: bool
    dtype: str  # fp32, bf16, fp16, int8 or int4

    @property
    def runner(self) -> str:
        """Return what runs it, for people."""
        return f"{'the native core' if self.is_native else 'torch'} in {self.dtype}"


def choose_running(config: NetConfig, target: Target, *, dtype: str) -> NetRunning:
    """Return how a network drafts for a target; dtype: fp32, bf16, fp16, int8, int4 or auto.

    It is native beside a native target, as far as the core knows the method. Left to us, its weights are int8 there,
    unless the target is fp32: a network's rounding costs drafts and never changes a token. Elsewhere it has the
    target's format. Raises ConfigError for int8 and int4 on torch.
    """
    ours = target.limits.dtype
    if isinstance(target, NativeRunner) and _is_known(config) and dtype in (AUTO, *KINDS):
        chosen = "fp32" if ours == "fp32" else "int8"
        return NetRunning(is_native=True, dtype=chosen if dtype == AUTO else dtype)
    if dtype in _NATIVE_ONLY:
        raise ConfigError(
            f"draft_dtype={dtype!r} cannot serve a {config.method} network for {target.limits.name}: only the native "
            f"core computes in it, beside a target that it runs, and it knows {', '.join(NATIVE_METHODS)}.",
            remedy="Leave draft_dtype out.",
        )
    own = "bf16" if ours in _NATIVE_ONLY else ours
    return NetRunning(is_native=False, dtype=own if dtype == AUTO else dtype)


def _is_known(config: NetConfig) -> bool:
    return config.method in NATIVE_METHODS and config.num_layers > 0 and config.head_dim <= _MOST_HEAD_DIM
