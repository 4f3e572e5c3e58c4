"""Captured texts as examples: which are for fitting, in which order they come, and as tensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from paradraft.core.arrays import IntArray, ints
from paradraft.core.errors import AlignmentError, ModelError
from paradraft.train.shards import ShardReader

_SCALE_SAMPLE = 128  # texts that the scale of the taps is measured on
_LEAST_SCALE = 1e-3


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Example:
    """A text with what the target held while it said it."""

    index: int  # in the folder of shards, to be named in errors
    ids: Tensor  # [T] int64
    prompt_len: int
    taps: Tensor  # [T, m * d] fp32; the last row means nothing
    last: Tensor | None  # [T, d] output of the target's last layer before its final norm, None if it was not kept
    source: str


class Examples:
    """The texts of a folder of shards whose taps were kept, in two parts: to fit to, and held out."""

    def __init__(self, folder: Path, tap_layers: tuple[int, ...], last_layer: int, *, hold_out: int = 40) -> None:
        """Open a folder; every hold_out-th text is held out (0: none).

        Raises ModelError if the folder is damaged or has no text with taps, AlignmentError if it lacks a layer.
        """
        self._reader = ShardReader(folder)
        manifest = self._reader.manifest
        self._hidden_size = manifest.hidden_size
        self._columns = _columns(manifest.tap_layers, tap_layers, folder)
        self._last = manifest.tap_layers.index(last_layer) if last_layer in manifest.tap_layers else None
        usable = [at for at in range(len(self._reader)) if self._reader.has_taps(at) and self._answer_len(at) >= 2]
        self.held_out = ints([at for at in usable if hold_out and at % hold_out == 0])
        self.fitted = ints([at for at in usable if not hold_out or at % hold_out])
        if not len(self.fitted):
            raise ModelError(
                f"{folder} has no text with taps to fit to.", remedy="Capture more, and keep the taps of some shards."
            )

    @property
    def hidden_size(self) -> int:
        """Return the target's hidden size."""
        return self._hidden_size

    @property
    def target(self) -> dict[str, str | int | None]:
        """Return the facts that identify the target."""
        return dict(self._reader.manifest.target)

    def count_tokens(self, vocab_size: int) -> Tensor:
        """Return how often each token was said in the answers to fit to, [vocab_size] int64."""
        counts = np.zeros(vocab_size, dtype=np.int64)
        for at in self.fitted.tolist():
            text = self._reader.read(at, with_taps=False)
            counts += np.bincount(text.ids[text.prompt_len :], minlength=vocab_size)
        return torch.from_numpy(counts)

    def read(self, index: int, *, longest: int | None = None) -> Example:
        """Return a text, cut to its first `longest` tokens; raise ModelError if its taps are damaged."""
        text = self._reader.read(index)
        assert text.taps is not None
        taps = torch.from_numpy(text.taps[:longest])
        size = self._hidden_size
        parts = [taps[:, column * size : (column + 1) * size] for column in self._columns]
        last = None if self._last is None else taps[:, self._last * size : (self._last + 1) * size].float()
        return Example(
            index=index,
            ids=torch.from_numpy(text.ids[:longest].astype(np.int64)),
            prompt_len=text.prompt_len,
            taps=torch.cat(parts, dim=1).float(),
            last=last,
            source=text.source,
        )

    def measure_scale(self) -> Tensor:
        """Return the root mean square of each tap value, [m * d]; a text's first token, a sink, is left out.

        Taps differ in size by orders of magnitude, and divided by this they can be fitted to at one rate.
        """
        step = max(len(self.fitted) // _SCALE_SAMPLE, 1)
        total, count = torch.zeros(len(self._columns) * self._hidden_size, dtype=torch.float64), 0
        for at in self.fitted[::step][:_SCALE_SAMPLE].tolist():
            taps = self.read(at).taps[1:-1].double()
            total += taps.square().sum(0)
            count += len(taps)
        return (total / max(count, 1)).sqrt().clamp_min(_LEAST_SCALE).float()

    def _answer_len(self, index: int) -> int:
        text = self._reader.read(index, with_taps=False)
        return len(text.ids) - text.prompt_len


class Order:
    """The endless order of texts: each epoch its own shuffle, a pure function of seed and place."""

    def __init__(self, indices: IntArray, seed: int) -> None:
        self._indices, self._seed = indices, seed
        self._epoch, self._shuffled = -1, indices

    def at(self, place: int) -> int:
        """Return the index of the text at a place of the endless order."""
        epoch, within = divmod(place, len(self._indices))
        if epoch != self._epoch:
            shuffle = np.random.default_rng([self._seed, epoch]).permutation(len(self._indices))
            self._epoch, self._shuffled = epoch, self._indices[shuffle]
        return int(self._shuffled[within])


def _columns(kept: tuple[int, ...], wanted: tuple[int, ...], folder: Path) -> list[int]:
    missing = [layer for layer in wanted if layer not in kept]
    if missing:
        raise AlignmentError(
            f"{folder} has taps of the layers {', '.join(map(str, kept))}, and the drafter reads {missing}.",
            remedy="Choose tap layers among those captured, or capture again with these.",
        )
    return [kept.index(layer) for layer in wanted]
