"""Tiny seeded models of architectures that only transformers knows, weights large enough to matter."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel

VOCAB_SIZE = 61
_COMMON = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_SLIDING = {
    "sliding_window": 5,
    "head_dim": 8,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_LATENT = {"q_lora_rank": 12, "kv_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6}
FOREIGN: Mapping[str, Mapping[str, object]] = {
    "llama": _COMMON,
    "mixtral": _COMMON | {"num_local_experts": 4},
    "qwen3_moe": _COMMON | _EXPERTS | {"head_dim": 8},
    "olmoe": _COMMON | _EXPERTS,
    "gpt_oss": _COMMON | _SLIDING | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "gemma2": _COMMON | _SLIDING | {"query_pre_attn_scalar": 8, "attn_logit_softcapping": 2.0},
    "gemma3_text": _COMMON | _SLIDING | {"query_pre_attn_scalar": 8},
    "cohere": _COMMON | {"logit_scale": 0.25},
    "granite": _COMMON | {"logits_scaling": 3.0, "attention_multiplier": 0.2},
    "deepseek_v2": _COMMON | _LATENT | {"head_dim": 4, "num_key_value_heads": 4, "first_k_dense_replace": 1,
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 1, "topk_group": 1},
    "gpt_neox": _COMMON,
    "gpt2": _COMMON,
    "phi": _COMMON,
    "phi3": _COMMON,
    "opt": _COMMON | {"ffn_dim": 40, "word_embed_proj_dim": 32},
}  # fmt: skip


def foreign_model(kind: str, **changes: object) -> PreTrainedModel:
    """Return the tiny model of an architecture as transformers runs it."""
    torch.manual_seed(7)
    config = CONFIG_MAPPING[kind](**dict(FOREIGN.get(kind, _COMMON)) | changes)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        for weight in model.parameters():
            spread = 1.5 * weight.shape[-1] ** -0.5 if weight.dim() > 1 else 0.1
            weight.add_(torch.randn_like(weight) * spread)
    return model


def plain_logits(model: PreTrainedModel, tokens: list[int]) -> torch.Tensor:
    """Return what transformers itself scores at each of these tokens, [T, V]."""
    with torch.inference_mode():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].float()
