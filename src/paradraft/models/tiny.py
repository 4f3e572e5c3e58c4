"""Seeded tiny models for tests and examples: real folders of every supported family, made in a moment.

Their weights are random, so their texts are noise, but a noise that depends on every token before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from paradraft.core.errors import ConfigError
from paradraft.models.decoder_config import read_decoder_config
from paradraft.models.decoder_names import EMBEDDING, HEAD, expected_shapes

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCAB_SIZE = len(SPECIAL_TOKENS) + 256
EOS_ID = 2
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_COMMON: Mapping[str, object] = MappingProxyType(
    {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 512,
        "bos_token_id": 0,
        "eos_token_id": EOS_ID,
        "pad_token_id": 0,
        "rope_theta": 10_000.0,
    }
)
_OWN: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "llama": {"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True},
        "mistral": {"architectures": ["MistralForCausalLM"], "tie_word_embeddings": False, "sliding_window": 16},
        "qwen2": {
            "architectures": ["Qwen2ForCausalLM"],
            "tie_word_embeddings": True,
            "use_sliding_window": True,
            "sliding_window": 12,
            "max_window_layers": 1,
        },
        "qwen3": {"architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": False, "head_dim": 16},
        "smollm3": {"architectures": ["SmolLM3ForCausalLM"], "tie_word_embeddings": True, "no_rope_layer_interval": 3},
    }
)


def tiny_config(family: str, changes: Mapping[str, object] | None = None) -> dict[str, object]:
    """Return the Hugging Face configuration of a tiny model, with changes; ConfigError for an unknown family."""
    if family not in _OWN:
        raise ConfigError(f"family={family!r} is not known.", remedy=f"Choose one of {', '.join(_OWN)}.")
    return {"model_type": family, **_COMMON, **_OWN[family], **(changes or {})}


def tiny_tensors(config: Mapping[str, object], seed: int) -> dict[str, Tensor]:
    """Return random fp32 weights for a configuration the built-in decoder covers, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    shapes = expected_shapes(read_decoder_config(config))
    return {name: _random(name, shape, generator) for name, shape in shapes.items()}


def _random(name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    noise: Tensor = torch.randn(shape, generator=generator)
    if name.endswith("norm.weight"):
        return 1.0 + 0.2 * noise
    if name.endswith(".bias"):
        return 0.1 * noise
    if name in (EMBEDDING, HEAD):
        return 0.5 * noise
    scale: float = shape[1] ** -0.5
    return noise * scale


def write_tiny_model(folder: Path, family: str, seed: int, changes: Mapping[str, object] | None = None) -> Path:
    """Write configuration, weights, tokenizer and chat template of a tiny model into a folder; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(family, changes)
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", {"eos_token_id": EOS_ID})
    save_file(tiny_tensors(config, seed), folder / "model.safetensors", metadata={"format": "pt"})
    byte_level_tokenizer().save(str(folder / "tokenizer.json"))
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": SPECIAL_TOKENS[EOS_ID],
            "chat_template": CHAT_TEMPLATE,
        },
    )
    return folder


def byte_level_tokenizer() -> Tokenizer:
    """Return a tokenizer with one id per byte behind the special tokens, so that every text has ids."""
    spellings = [*SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={spelling: token for token, spelling in enumerate(spellings)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL_TOKENS])
    return tokenizer


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
