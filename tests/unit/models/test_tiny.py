from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from paradraft.core.errors import ConfigError
from paradraft.models.families import FAMILIES
from paradraft.models.tiny import (
    EOS_ID,
    VOCAB_SIZE,
    byte_level_tokenizer,
    tiny_config,
    tiny_tensors,
    write_tiny_model,
)


def test_a_seed_gives_the_same_weights_again_and_another_seed_others():
    config = tiny_config("llama")
    first, again, other = tiny_tensors(config, 1), tiny_tensors(config, 1), tiny_tensors(config, 2)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_folder_that_can_be_read_back(tmp_path: Path, family: str):
    folder = write_tiny_model(tmp_path / "made", family, seed=3)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config == tiny_config(family)
    read = load_file(folder / "model.safetensors")
    assert all(torch.equal(read[name], tensor) for name, tensor in tiny_tensors(config, 3).items())
    assert json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["chat_template"]


def test_the_tokenizer_has_an_id_for_every_byte():
    tokenizer = byte_level_tokenizer()
    text = "".join(map(chr, range(1, 300))) + "\U0001f600"
    ids = tokenizer.encode(text).ids
    assert len(ids) == len(text.encode())
    assert tokenizer.decode(ids) == text
    assert tokenizer.get_vocab_size() == VOCAB_SIZE
    assert tokenizer.encode("a<|im_end|>").ids[-1] == EOS_ID


def test_an_unknown_family_is_named_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"'gpt2'.*llama"):
        tiny_config("gpt2")
