"""What was freed goes back to the system, also below what is still in use."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from paradraft.core.memory import return_freed_memory


def resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc can")
def test_pages_below_what_is_in_use_are_given_back() -> None:
    blocks = [bytes([number % 255 + 1]) * 2000 for number in range(20_000)]
    last = blocks.pop()
    del blocks
    before = resident()
    return_freed_memory()
    assert before - resident() > 30_000_000
    assert len(last) == 2000


def test_other_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    return_freed_memory()
