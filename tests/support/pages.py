"""Engines whose answers can be read, for pages that show them."""

from __future__ import annotations

import time

import numpy as np

from paradraft.core.arrays import FloatArray
from paradraft.engine.engine import Engine
from support.engines import build_engine
from support.fake_drafters import HalfRightDrafter
from support.serving import BYTES
from support.stub_target import hashed_law

READABLE = np.frombuffer(b"  aabcdeeefghiilmnoooprsttuvw", dtype=np.uint8)


def readable_engine(*, pause: float = 0.0) -> Engine:
    """Return an engine that says letters and blanks until its limit, drafts partly right, at `pause` seconds a law."""
    arbitrary = hashed_law(BYTES)

    def law(prefix: tuple[int, ...]) -> FloatArray:
        time.sleep(pause)
        logits = np.full(BYTES, -1e4, dtype=np.float32)
        logits[READABLE] = arbitrary(prefix)[READABLE]
        return logits

    return build_engine(HalfRightDrafter(law, BYTES), law=law, vocab_size=BYTES)
