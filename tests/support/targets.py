"""Every implementation of the Target port, small enough for tests, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from paradraft.core.ports import Needs, Target
from paradraft.models.foreign.runner import TransformersRunner, load_foreign
from paradraft.models.runner import TorchRunner
from paradraft.models.tiny import tiny_config, tiny_tensors
from paradraft.native.library import find_library
from paradraft.native.runner import NativeRunner
from support.foreign_models import VOCAB_SIZE, foreign_model
from support.native import native_runner
from support.stub_target import StubTarget, hashed_law

NUM_PAGES, PAGE_SIZE = 32, 4
_WINDOW: Mapping[str, Mapping[str, object]] = {"mistral": {"sliding_window": 5}}
TAPS = Needs(sources=("test",), hidden_layers=(-1, 0, 2), entropy_layers=(0, 2))


def stub() -> Target:
    return StubTarget(hashed_law(VOCAB_SIZE), vocab_size=VOCAB_SIZE, num_pages=NUM_PAGES, page_size=PAGE_SIZE)


def foreign(kind: str, *, dtype: torch.dtype = torch.float32, **changes: object) -> TransformersRunner:
    reference = foreign_model(kind, **changes)
    model = load_foreign(
        reference.config.to_dict(), reference.state_dict(), name=kind, dtype=dtype, device=torch.device("cpu")
    )
    return TransformersRunner(model, num_pages=NUM_PAGES, page_size=PAGE_SIZE, needs=TAPS)


def tiny(family: str) -> dict[str, object]:
    return tiny_config(family, {"vocab_size": VOCAB_SIZE, "max_position_embeddings": 64, **_WINDOW.get(family, {})})


def native(family: str) -> NativeRunner:
    config = tiny(family)
    return native_runner(
        config, tiny_tensors(config, seed=5), num_pages=NUM_PAGES, page_size=PAGE_SIZE, needs=TAPS, num_threads=2
    )


def built_in(family: str) -> TorchRunner:
    config = tiny(family)
    return TorchRunner.build(
        config,
        tiny_tensors(config, seed=5),
        dtype=torch.float32,
        device=torch.device("cpu"),
        num_pages=NUM_PAGES,
        page_size=PAGE_SIZE,
        needs=TAPS,
    )


TARGETS: Mapping[str, Callable[[], Target]] = {
    "stub": stub,
    "torch-llama": lambda: built_in("llama"),
    "torch-mistral": lambda: built_in("mistral"),
    "torch-qwen3": lambda: built_in("qwen3"),
    "transformers-llama": lambda: foreign("llama"),
    "transformers-mixtral": lambda: foreign("mixtral"),
    "transformers-gemma2": lambda: foreign("gemma2"),
    "transformers-gpt_neox": lambda: foreign("gpt_neox"),
}
NATIVE: Mapping[str, Callable[[], Target]] = {
    "native-llama": lambda: native("llama"),
    "native-mistral": lambda: native("mistral"),
    "native-qwen2": lambda: native("qwen2"),
    "native-qwen3": lambda: native("qwen3"),
    "native-smollm3": lambda: native("smollm3"),
}
if find_library() is not None:
    TARGETS = {**TARGETS, **NATIVE}


def build_target(name: str) -> Target:
    """Return a fresh target."""
    return TARGETS[name]()
