"""Run as a program of its own: prints what torch finds here as JSON, so that a crash or a hang in it harms nobody.

The pass times tell whether speculation can pay: weights are read from memory once for 1 row or for 8.
"""

from __future__ import annotations

import json
import sys
import time

import torch

_ROWS = (1, 8)
_SHAPE = (2048, 8192)
_NUM_LAYERS = 8  # 256 MiB in bf16, so that caches do not hold them
_REPEATS = 5


def main() -> None:
    """Print the facts as one JSON object."""
    is_cuda = torch.cuda.is_available()
    facts = {
        "version": torch.__version__,
        "cuda_build": torch.version.cuda,
        "cuda_devices": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        if is_cuda
        else [],
        "threads": torch.get_num_threads(),
        "pass_milliseconds": {name: _pass_times(dtype) for name, dtype in _dtypes()},
    }
    json.dump(facts, sys.stdout)


def _dtypes() -> list[tuple[str, torch.dtype]]:
    return [("bf16", torch.bfloat16), ("fp32", torch.float32)]


def _pass_times(dtype: torch.dtype) -> list[float]:
    """Return the best time of a pass of linear layers over each number of rows, in milliseconds."""
    layers = _NUM_LAYERS if dtype == torch.bfloat16 else _NUM_LAYERS // 2
    weights = [torch.full(_SHAPE, 0.01, dtype=dtype) for _ in range(layers)]
    times = []
    for rows in _ROWS:
        inputs = torch.full((rows, _SHAPE[1]), 0.01, dtype=dtype)
        times.append(min(_time(weights, inputs) for _ in range(_REPEATS)) * 1000)
    return times


@torch.inference_mode()
def _time(weights: list[torch.Tensor], inputs: torch.Tensor) -> float:
    start = time.perf_counter()
    for weight in weights:
        torch.nn.functional.linear(inputs, weight)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
