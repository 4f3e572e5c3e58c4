"""Builds a foreign model from its configuration and tensors; names and layouts of weights are left to transformers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from paradraft.core.errors import ModelError
from paradraft.models.foreign.config import architecture_of
from paradraft.models.foreign.faults import FOREIGN_FAULTS, raise_if_memory, told
from paradraft.models.foreign.quiet import quietly

_DAMAGED = "Download the model again, or choose weights that fit this config.json."


def build_module(
    config: PreTrainedConfig, tensors: Mapping[str, Tensor], *, dtype: torch.dtype, device: torch.device
) -> PreTrainedModel:
    """Return the model, ready to run; raise ModelError if a weight is missing, foreign or misshapen."""
    kind = str(config.model_type)
    with quietly():
        try:
            loaded = architecture_of(config).from_pretrained(
                None,
                config=config,
                state_dict=dict(tensors),
                dtype=dtype,
                attn_implementation="eager",
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                local_files_only=True,
                trust_remote_code=False,
            )
        except FOREIGN_FAULTS as error:
            raise_if_memory(error)
            raise ModelError(f"{kind}: the model cannot be built ({told(error)}).", remedy=_DAMAGED) from error
    model, report = cast("tuple[PreTrainedModel, Mapping[str, Collection[object]]]", loaded)
    _check_report(kind, report)
    nn.Module.to(model, device).requires_grad_(False)
    return model


def _check_report(kind: str, report: Mapping[str, Collection[object]]) -> None:
    mismatched = [str(entry[0]) if isinstance(entry, tuple) else str(entry) for entry in report["mismatched_keys"]]
    for problem, names in (
        ("lack", report["missing_keys"]),
        ("have other shapes than config.json says for", mismatched),
        ("hold tensors the architecture does not know:", report["unexpected_keys"]),
    ):
        if names:
            raise ModelError(f"{kind}: the weights {problem} {_first(names)}.", remedy=_DAMAGED)
    if report["error_msgs"]:
        raise ModelError(f"{kind}: the weights cannot be read ({_first(report['error_msgs'])}).", remedy=_DAMAGED)


def _first(names: Collection[object]) -> str:
    listed = sorted(str(name) for name in names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
