"""What a capture is to do, decided before it starts, and what it may take of the disk."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from paradraft.core.errors import ConfigError, ModelError
from paradraft.train.manifest import FILE, Facts, Manifest, read_manifest
from paradraft.train.prompts import OWN, Task

_NUM_NET_TAPS = 5
_RESERVE = 1 << 28  # bytes of disk that a capture leaves alone


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureOptions:
    """How a target is captured. own_turns counts what it is asked to write, before the unfit are left out.

    Shares of own turns: openings begin with a drawn request, half_written of these in the middle of it, and follow_ups
    go on after the first answer with a second turn.
    """

    own_turns: int = 0
    openings: float = 0.85
    half_written: float = 0.4
    follow_ups: float = 0.25
    max_prompt_len: int = 224
    max_tokens: int = 288
    temperature: float = 0.0
    seed: int = 0
    unit: int = 128  # conversations per shard: what is lost when a run is killed
    turns_unit: int = 256  # own turns per file

    def __post_init__(self) -> None:
        """Raise ConfigError for a value out of range."""
        for name, low, high in (
            ("own_turns", 0, 10_000_000),
            ("max_prompt_len", 1, 2**20),
            ("max_tokens", 1, 2**20),
            ("seed", 0, 2**32 - 1),
            ("unit", 1, 100_000),
            ("turns_unit", 1, 100_000),
        ):
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"{name}={getattr(self, name)} is not allowed.", remedy=f"Use {low} to {high}.")
        for name in ("openings", "half_written", "follow_ups"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"{name}={getattr(self, name)} is not allowed.", remedy="Use a share from 0 to 1.")

    @property
    def num_turn_files(self) -> int:
        """Return how many files the own turns fill."""
        return -(-self.own_turns // self.turns_unit)


@dataclass(frozen=True, kw_only=True, slots=True)
class CapturePlan:
    """Everything that decides what a capture holds. Two runs with one plan give the same shards."""

    target: Facts
    tap_layers: tuple[int, ...]
    hidden_size: int
    vocab_size: int
    tasks: tuple[Task, ...]  # from files; the target's own turns come on top
    held_out: tuple[str, ...]
    options: CaptureOptions

    def __post_init__(self) -> None:
        """Raise ConfigError if there is nothing to ask."""
        if not self.tasks and not self.options.own_turns:
            raise ConfigError(
                "There is nothing to ask the target.", remedy="Give --prompts NAME=FILE, --own-turns NUMBER, or both."
            )

    def manifest(self) -> Manifest:
        """Return the manifest that a folder of this plan begins with."""
        named = {task.source for task in self.tasks} | ({OWN} if self.options.own_turns else set())
        return Manifest(
            target=dict(self.target),
            tap_layers=self.tap_layers,
            hidden_size=self.hidden_size,
            vocab_size=self.vocab_size,
            sources=tuple(sorted(named)),
            plan=self.described(),
        )

    def described(self) -> str:
        """Return options, and hashes of prompts and held-out texts, as a JSON object."""
        asked = [asdict(task) for task in self.tasks]
        return json.dumps({**asdict(self.options), "prompts": _digest(asked), "held_out": _digest(self.held_out)})

    @property
    def bytes_per_token(self) -> int:
        """Return what one token takes of the disk, taps and id."""
        return len(self.tap_layers) * self.hidden_size * 2 + 4

    @property
    def most_tokens(self) -> int:
        """Return how many tokens there can be at most, prompts included."""
        num_tasks = len(self.tasks) + self.options.own_turns
        return num_tasks * (self.options.max_prompt_len + self.options.max_tokens)


def default_taps(num_layers: int) -> tuple[int, ...]:
    """Return the outputs that networks read, spread evenly over the layers, and the last one, which teaches.

    1, 8, 14, 20, 27 and 29 of 30 layers: the rule of DFlash's authors for five taps.
    """
    low, high = min(1, num_layers - 1), max(num_layers - 3, 0)
    spread = np.linspace(low, high, _NUM_NET_TAPS).round().astype(int).tolist()
    return tuple(sorted({*spread, num_layers - 1}))


def check_taps(layers: Sequence[int], num_layers: int) -> tuple[int, ...]:
    """Return tap layers in order; raise ConfigError for one that the target does not have, or has twice."""
    outside = [layer for layer in layers if not -1 <= layer < num_layers]
    if outside or len(set(layers)) != len(layers) or not layers:
        raise ConfigError(
            f"taps={list(layers)} is not allowed.",
            remedy=f"Name layers once each, from -1 (the embedding) to {num_layers - 1} (the last of {num_layers}).",
        )
    return tuple(sorted(layers))


def room_needed(plan: CapturePlan, folder: Path, max_taps_bytes: int | None) -> int:
    """Return how many more bytes a capture may take at most; raise ModelError if the disk has not that many free."""
    taps = plan.most_tokens * (plan.bytes_per_token - 4)
    taps = taps if max_taps_bytes is None else min(taps, max_taps_bytes)
    there = read_manifest(folder).taps_bytes if (folder / FILE).exists() else 0
    needed = max(taps - there, 0) + plan.most_tokens * 4
    free = shutil.disk_usage(_existing(folder)).free - _RESERVE
    if needed > free:
        raise ModelError(
            f"{folder} has {max(free, 0) / 1e9:.1f} GB free, and this capture may take {needed / 1e9:.1f} GB more.",
            remedy=f"Set --taps-gb to at most {max(free + there, 0) / 1e9:.0f} (0 keeps tokens only, and taps can be "
            "made again later), ask for fewer prompts, or choose a folder on another disk.",
        )
    return needed


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode("ascii")).hexdigest()


def _existing(folder: Path) -> Path:
    return next(place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir())
