"""Runs in the environment of `speculators`: loads one of our folders and compares what the library holds with the file.

    python read_speculators.py FOLDER result.json

result: the class that was made, how many tensors of the file it holds bit by bit, and those that it does not.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
TAKEN_FROM_TARGET = {"embed_tokens.weight"}  # the library overwrites it with the target's for block drafters


def main(folder: str, result_file: str) -> None:
    import torch
    from safetensors.torch import load_file
    from speculators import SpeculatorModel

    model = SpeculatorModel.from_pretrained(folder)
    held = model.state_dict()
    written = load_file(Path(folder) / "model.safetensors")
    same, other = [], []
    for name, tensor in written.items():
        twin = held.get(name)
        is_same = twin is not None and torch.equal(twin.reshape(tensor.shape).to(tensor.dtype), tensor)
        (same if is_same else other).append(name)
    result = {
        "class": type(model).__name__,
        "same": len(same),
        "other": sorted(set(other) - TAKEN_FROM_TARGET),
        "not_finite": [name for name, tensor in held.items() if not torch.isfinite(tensor.float()).all()],
    }
    Path(result_file).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
