"""Folders of captured texts for a tiny target: each token decides its successor, and taps say which token it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paradraft.core.arrays import IntArray, ints
from paradraft.train.manifest import Manifest
from paradraft.train.shards import Captured, ShardWriter

VOCAB, HIDDEN, LAYERS = 259, 48, 3  # of models/tiny.py
TAPS = (0, 1, 2)
MANIFEST = Manifest(
    target={"name": "tiny", "hidden_size": HIDDEN, "vocab_size": VOCAB, "num_layers": LAYERS},
    tap_layers=TAPS,
    hidden_size=HIDDEN,
    vocab_size=VOCAB,
    sources=("rule",),
)


def rule_text(length: int, start: int) -> IntArray:
    """Return a text in which every token follows from the one before."""
    ids = [start % VOCAB]
    while len(ids) < length:
        ids.append((5 * ids[-1] + 7) % 37 + 10)
    return ints(ids)


def rule_taps(ids: IntArray, seed: int = 0) -> np.ndarray[tuple[int, int], np.dtype[np.float16]]:
    """Return taps [n, layers * hidden size] in which each token has its own line; the last is zero."""
    lines = np.random.default_rng(seed).normal(size=(VOCAB, len(TAPS) * HIDDEN)).astype(np.float16)
    taps = lines[ids] * np.repeat(np.float16([1.0, 20.0, 5.0]), HIDDEN)
    taps[-1] = 0
    return taps


def write_capture(folder: Path, *, num_texts: int = 24, length: int = 30, shard: int = 0) -> Path:
    """Add a shard of texts to a folder and return the folder."""
    texts = [rule_text(length + number % 5, 10 + number + 31 * shard) for number in range(num_texts)]
    sequences = [Captured(ids=ids, prompt_len=4, taps=rule_taps(ids), source="rule") for ids in texts]
    ShardWriter(folder, MANIFEST).write(shard, sequences)
    return folder
