"""Which runner serves a model: the native core where it can, torch everywhere else, and why."""

from __future__ import annotations

from collections.abc import Mapping

from paradraft.core.errors import ConfigError, ParadraftError
from paradraft.models.build import NATIVE, RUNNERS, TORCH
from paradraft.models.decoder_config import why_unsupported
from paradraft.models.packed_parts import KINDS
from paradraft.native.library import load_library

_NATIVE_ONLY = frozenset({"int8", "int4"})


def why_not_native(runner: str, config: Mapping[str, object], *, name: str, dtype: str, device: str) -> str | None:
    """Return why torch is to run a model and not the native core, None if the native core is.

    runner is one of RUNNERS, dtype fp32, bf16, fp16, int8 or int4, device cpu or cuda. Raises ConfigError if the native
    core was asked for and cannot, by its name or by a dtype that it alone has.
    """
    if runner not in RUNNERS:
        raise ConfigError(f"runner={runner!r} is not known.", remedy=f"Choose one of {', '.join(RUNNERS)}.")
    reason = "runner is torch" if runner == TORCH else _obstacle(config, dtype, device)
    if reason is not None and dtype in _NATIVE_ONLY:
        raise ConfigError(
            f"dtype={dtype!r} cannot serve {name}, because only the native core computes in it: {reason}.",
            remedy="Set dtype to bf16 or fp32, or change what is named.",
        )
    if reason is not None and runner == NATIVE:
        raise ConfigError(
            f"runner='native' cannot serve {name}: {reason}.",
            remedy="Set runner to auto or torch, or change what is named.",
        )
    return reason


def _obstacle(config: Mapping[str, object], dtype: str, device: str) -> str | None:
    if device != "cpu":
        return f"it runs on the processor, and device is {device}"
    if dtype not in KINDS:
        return f"it computes in {', '.join(KINDS)}, and dtype is {dtype}"
    reason = why_unsupported(config)
    if reason is not None:
        return reason
    try:
        load_library()
    except ParadraftError as error:
        return error.problem.rstrip(".")
    return None
