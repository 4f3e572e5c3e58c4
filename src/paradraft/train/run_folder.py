"""The folder of a fit: the last checkpoint, from which it goes on as if it had never stopped, and its history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from paradraft.core.errors import ModelError
from paradraft.train.files import write_text, write_whole

CHECKPOINT, HISTORY = "checkpoint.safetensors", "history.jsonl"
ORIGIN = "origin"  # the fact that says, as JSON, which drafter's weights a fit began with
_FORMAT = "1"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Checkpoint:
    """Everything the next step depends on. facts: texts by name, such as the plan and the data they belong to."""

    step: int  # steps that are done
    net: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    scale: Tensor | None  # of the taps
    facts: Mapping[str, str]


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Put a checkpoint in place of the last one, whole; raise ModelError if the disk is full."""
    tensors = {f"net/{name}": tensor for name, tensor in checkpoint.net.items()}
    tensors |= {f"optimiser/{name}": tensor for name, tensor in checkpoint.optimiser.items()}
    if checkpoint.scale is not None:
        tensors["scale"] = checkpoint.scale
    ready = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    facts = {**checkpoint.facts, "format": _FORMAT, "step": str(checkpoint.step)}
    write_whole(folder / CHECKPOINT, lambda partial: _save(ready, partial, facts))


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the folder's checkpoint, None if there is none yet; raise ModelError if it is damaged."""
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            facts = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        step = int(facts["step"])
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise _damaged(path, str(error)) from error
    if facts.get("format") != _FORMAT or step < 0:
        raise _damaged(path, f"its format is {facts.get('format')!r} and its step {step}")
    parts: dict[str, dict[str, Tensor]] = {"net": {}, "optimiser": {}}
    for name, tensor in tensors.items():
        part, _, rest = name.partition("/")
        if part in parts:
            parts[part][rest] = tensor
    return Checkpoint(
        step=step, net=parts["net"], optimiser=parts["optimiser"], scale=tensors.get("scale"), facts=facts
    )


class History:
    """What was measured along the way, one JSON object a line."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / HISTORY

    def begin(self, step: int) -> None:
        """Drop what a run that stopped wrote after the checkpoint it goes on from."""
        kept = [entry for entry in self.read() if entry["step"] <= step]
        write_text(self._path, "".join(json.dumps(entry) + "\n" for entry in kept))

    def add(self, entry: Mapping[str, float]) -> None:
        """Add an entry; it has a step."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def read(self) -> list[dict[str, float]]:
        """Return all entries; a line that was cut off in the middle is left out."""
        if not self._path.exists():
            return []
        entries = []
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and "step" in entry:
                entries.append(entry)
        return entries


def _save(tensors: dict[str, Tensor], path: Path, facts: dict[str, str]) -> None:
    try:
        save_file(tensors, path, metadata=facts)
    except SafetensorError as error:
        raise OSError(28 if "os error 28" in str(error) else 5, str(error)) from error


def _damaged(path: Path, why: str) -> ModelError:
    return ModelError(f"{path} is damaged: {why}.", remedy="Remove it and begin the fit again.")
