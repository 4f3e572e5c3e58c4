"""The transformers peer against a hand-written greedy loop."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from paradraft.core.sampling import SamplingParams
from paradraft.lab.peer import TransformersPeer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        eos_token_id=5,
    )
    path = tmp_path_factory.mktemp("peer")
    LlamaForCausalLM(config).save_pretrained(path)
    return path


def greedy(folder, prompt: list[int], count: int) -> list[int]:
    model = LlamaForCausalLM.from_pretrained(folder)
    ids = list(prompt)
    for _ in range(count):
        with torch.inference_mode():
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt) :]


def test_padded_batches_give_the_greedy_tokens_of_each_prompt_and_do_not_stop_at_eos(folder):
    peer = TransformersPeer(folder, dtype="fp32")
    prompts = [[1, 2, 3], [9], [4, 5, 6, 7]]
    params = [SamplingParams(temperature=0.0, max_tokens=24, ignore_eos=True)] * 3
    results = peer.generate(prompts, params)
    assert [list(result.choices[0].token_ids) for result in results] == [greedy(folder, p, 24) for p in prompts]
