"""The modules of `benchmarks/peers`, which is a folder of scripts, and engines without a model to drive."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "benchmarks/peers"
sys.path.insert(0, str(FOLDER))
arms, figures, gguf_files, process, run, shown, turns = map(
    import_module, ("arms", "figures", "gguf_files", "process", "run", "shown", "turns")
)
sys.path.remove(str(FOLDER))


def fake(way: str, log: Path) -> Any:
    """Start an engine of fake_peer.py and load it."""
    environment = {**os.environ, "PYTHONPATH": str(FOLDER / "engines")}
    peer = process.Peer([sys.executable, Path(__file__).with_name("fake_peer.py")], log, environment)
    try:
        peer.load({"way": way}, seconds=60.0)
    except BaseException:
        peer.close()
        raise
    return peer
