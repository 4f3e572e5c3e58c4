"""Engines that embed, and what transformers says of the same texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import numpy as np
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel

from paradraft.core.arrays import FloatArray
from paradraft.core.ports import Drafter, Target
from paradraft.engine.engine import Engine, EngineOptions
from paradraft.kv.pages import PageCache
from paradraft.models.tiny import tiny_tensors
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.rules import make_rule
from support.byte_tokenizer import ByteTokenizer
from support.engines import FakeClock
from support.fake_drafters import FakeDrafter
from support.foreign_models import foreign_model
from support.targets import tiny


def engine_over(
    target: Target, drafter: Drafter | None = None, *, num_pages: int | None = None, max_step_tokens: int = 16
) -> Engine:
    limits = target.limits
    return Engine(
        target=target,
        drafter=drafter or FakeDrafter(),
        acceptor=RuleAcceptor(make_rule("coupled")),
        tokenizer=ByteTokenizer(limits.vocab_size, eos_ids=()),
        pages=PageCache(num_pages=num_pages or limits.num_pages, page_size=limits.page_size),
        options=EngineOptions(
            max_rows=4, longest=40, max_step_tokens=max_step_tokens, gamma=3, nodes=3, is_adaptive=False
        ),
        clock=FakeClock(),
    )


def embedded(engine: Engine, texts: Sequence[Sequence[int]]) -> list[FloatArray]:
    """Return the vectors of texts, stepping until they are there."""
    answer: Future[list[FloatArray]] = Future()
    engine.embedder.check(texts)
    engine.embedder.add(texts, answer)
    for _ in range(1000):
        if answer.done():
            return answer.result()
        engine.step()
    raise AssertionError("the embeddings did not come to an end")


def expected(name: str, tokens: Sequence[int]) -> FloatArray:
    """Return the vector by transformers, for a target of support.targets."""
    runner, _, kind = name.partition("-")
    model = foreign_model(kind) if runner == "transformers" else _built_in(tiny(kind))
    with torch.inference_mode():
        states = model.base_model(input_ids=torch.tensor([list(tokens)]), use_cache=False).last_hidden_state[0]
    mean = states.double().mean(dim=0).numpy()
    return (mean / np.linalg.norm(mean)).astype(np.float32)


def _built_in(config: Mapping[str, object]) -> PreTrainedModel:
    own = {key: value for key, value in config.items() if key != "model_type"}
    made = CONFIG_MAPPING[str(config["model_type"])](**own)
    model = AutoModelForCausalLM.from_config(made, attn_implementation="eager").float().eval()
    model.load_state_dict(tiny_tensors(config, seed=5), strict=False)
    return model
