"""Architectures the built-in decoder does not know, from a folder to the answer, experts included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import CONFIG_MAPPING, PreTrainedModel

from paradraft import LLM, SamplingParams
from paradraft.core.errors import ModelError
from paradraft.models.tiny import VOCAB_SIZE, write_tiny_model
from support.foreign_models import foreign_model

PROMPTS = ["Once upon a time there was", "to be or not to be or not to be or", "x"]
NUM_TOKENS = 24
GREEDY = SamplingParams(temperature=0.0, max_tokens=NUM_TOKENS, ignore_eos=True)
SAMPLED = SamplingParams(temperature=1.0, top_p=0.95, seed=11, max_tokens=NUM_TOKENS, ignore_eos=True)
KINDS = ["mixtral", "gemma2"]


def write_folder(folder: Path, model: PreTrainedModel) -> Path:
    """Write a folder as the hub would hold it, with the tiny models' tokenizer."""
    write_tiny_model(folder, "llama", seed=0)
    model.save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 2}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=KINDS)
def reference(request: pytest.FixtureRequest) -> PreTrainedModel:
    return foreign_model(
        request.param, vocab_size=VOCAB_SIZE, max_position_embeddings=256, bos_token_id=0, eos_token_id=2
    )


@pytest.fixture(scope="module")
def folder(reference: PreTrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("foreign"), reference)


def answers(folder: Path, params: SamplingParams, **options: object) -> list[tuple[int, ...]]:
    with LLM(model=str(folder), dtype="fp32", kv_tokens=1024, **options) as llm:
        return [result.choices[0].token_ids for result in llm.generate(PROMPTS, params)]


def greedy_by_transformers(model: PreTrainedModel, prompt: list[int]) -> tuple[int, ...]:
    tokens = list(prompt)
    with torch.inference_mode():
        for _ in range(NUM_TOKENS):
            tokens.append(int(model(torch.tensor([tokens]), use_cache=False).logits[0, -1].argmax()))
    return tuple(tokens[len(prompt) :])


@pytest.mark.parametrize("drafter", ["none", "ngram", "suffix"])
def test_greedy_answers_are_those_of_transformers(folder: Path, reference: PreTrainedModel, drafter: str) -> None:
    with LLM(model=str(folder), drafter=drafter, dtype="fp32", kv_tokens=1024) as llm:
        prompts = [llm.tokenizer.encode(prompt) for prompt in PROMPTS]
    expected = [greedy_by_transformers(reference, prompt) for prompt in prompts]
    assert answers(folder, GREEDY, drafter=drafter) == expected


def test_sampled_answers_do_not_depend_on_the_drafter(folder: Path) -> None:
    plain = answers(folder, SAMPLED, drafter="none")
    assert answers(folder, SAMPLED, drafter="suffix") == plain
    assert answers(folder, SAMPLED, drafter=str(folder), gamma=3) == plain


def test_a_foreign_model_as_its_own_drafter_has_every_draft_accepted(folder: Path) -> None:
    with LLM(model=str(folder), drafter=str(folder), dtype="fp32", kv_tokens=1024, gamma=3, adaptive=False) as llm:
        stats = llm.generate(PROMPTS[0], GREEDY)[0].choices[0].stats
    assert stats.rounds > 0
    assert stats.tau == 4.0


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (CONFIG_MAPPING["mamba"](num_hidden_layers=2).to_dict(), "linear_attention.*cannot be rewound"),
        (CONFIG_MAPPING["jamba"](num_hidden_layers=8).to_dict(), "linear_attention.*cannot be rewound"),
        (CONFIG_MAPPING["t5"]().to_dict(), "an encoder-decoder model"),
        ({"model_type": "own_code", "auto_map": {"AutoModelForCausalLM": "own.Model"}}, "code is never run"),
    ],
    ids=["recurrent", "hybrid", "encoder-decoder", "remote code"],
)
def test_what_cannot_be_served_is_refused_at_load_with_the_reason(
    config: dict[str, object], reason: str, tmp_path: Path
) -> None:
    write_tiny_model(tmp_path, "llama", seed=0)
    (tmp_path / "config.json").write_text(json.dumps({**config, "vocab_size": VOCAB_SIZE}), encoding="utf-8")
    with pytest.raises(ModelError, match=reason):
        LLM(model=str(tmp_path), dtype="fp32")
