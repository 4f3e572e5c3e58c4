"""A small decoder of the llama family that can be trained, with the names of Hugging Face's checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from paradraft.core.errors import ConfigError
from paradraft.models.rope import Angles
from paradraft.nets.config import NetConfig
from paradraft.nets.networks.parts import INITIAL_SPREAD, Mlp, Norm, Projections, rotation_of
from paradraft.train.target import TargetTables


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallPlan:
    """The sizes of a draft model that its target does not decide."""

    num_layers: int = 2
    hidden_size: int = 192
    intermediate_size: int = 512
    num_heads: int = 3
    num_key_heads: int = 1

    def __post_init__(self) -> None:
        """Raise ConfigError for sizes that cannot be."""
        for name in ("num_layers", "hidden_size", "intermediate_size", "num_heads", "num_key_heads"):
            if not 1 <= getattr(self, name) <= 2**16:
                raise ConfigError(f"{name}={getattr(self, name)} is not allowed.", remedy="Use at least 1.")
        if self.hidden_size % (2 * self.num_heads) or self.num_heads % self.num_key_heads:
            raise ConfigError(
                f"hidden_size={self.hidden_size} does not divide into {self.num_heads} even heads, or these into "
                f"{self.num_key_heads} groups.",
                remedy="Use heads of 64, such as hidden_size=192 with 3 heads.",
            )

    def parts(self, target: TargetTables) -> NetConfig:
        """Return the sizes in the form that the parts of networks are built from."""
        return NetConfig(
            method="dspark",
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            num_key_heads=self.num_key_heads,
            head_dim=self.hidden_size // self.num_heads,
            norm_eps=target.config.norm_eps,
            rope_theta=target.config.rope.theta,
            max_positions=target.config.max_positions,
            vocab_size=target.config.vocab_size,
            draft_vocab_size=target.config.vocab_size,
            block_size=1,
            mask_token_id=0,
            tap_layers=(0,),
            num_target_layers=target.config.num_layers,
        )

    def config_json(self, target: TargetTables) -> dict[str, object]:
        """Return the model's config.json."""
        kept = ("bos_token_id", "eos_token_id", "pad_token_id")
        return {
            **{name: target.checkpoint.config[name] for name in kept if name in target.checkpoint.config},
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "vocab_size": target.config.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_key_heads,
            "head_dim": self.hidden_size // self.num_heads,
            "rms_norm_eps": target.config.norm_eps,
            "rope_theta": target.config.rope.theta,
            "max_position_embeddings": target.config.max_positions,
            "tie_word_embeddings": True,
            "attention_bias": False,
            "mlp_bias": False,
        }


class _Layer(nn.Module):
    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.input_layernorm = Norm(config.hidden_size, config.norm_eps)
        self.self_attn = Projections(config, config.hidden_size)
        self.post_attention_layernorm = Norm(config.hidden_size, config.norm_eps)
        self.mlp = Mlp(config.hidden_size, config.intermediate_size)

    def forward(self, states: Tensor, angles: Angles) -> Tensor:
        """Return new states [T, d] of one text."""
        attention, lines = self.self_attn, self.input_layernorm(states)
        queries, keys = attention.queries(lines, angles), attention.keys(lines, angles)
        q, k, v = (part.transpose(0, 1)[None] for part in (queries, keys, attention.values(lines)))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        states = states + attention.o_proj(mixed[0].transpose(0, 1).flatten(1))
        changed: Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return changed


class _Body(nn.Module):
    def __init__(self, config: NetConfig, embedding: Tensor) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(*embedding.shape)
        self.embed_tokens.weight = nn.Parameter(embedding.clone())
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.num_layers))
        self.norm = Norm(config.hidden_size, config.norm_eps)


class SmallModel(nn.Module):
    """The model; its head is its embedding."""

    def __init__(self, config: NetConfig, embedding: Tensor) -> None:
        super().__init__()
        self._config = config
        self.model = _Body(config, embedding)

    def hidden(self, ids: Tensor) -> Tensor:
        """Return what the head reads after each token of a text, [T, d]."""
        states: Tensor = self.model.embed_tokens(ids)
        rotation = rotation_of(self._config, dtype=states.dtype, device=states.device)
        angles = rotation.at(torch.arange(len(ids), device=ids.device))
        for layer in self.model.layers:
            states = layer(states, angles)
        normed: Tensor = self.model.norm(states)
        return normed

    @property
    def head(self) -> Tensor:
        """Return the head [V, d]."""
        weight: Tensor = self.model.embed_tokens.weight
        return weight


def begin_small(plan: SmallPlan, target: TargetTables, *, seed: int) -> SmallModel:
    """Return a fresh model; its embedding is the target's along the directions in which that varies most."""
    torch.manual_seed(seed)
    embedding = target.embedding
    if plan.hidden_size < embedding.shape[1]:
        _, directions = torch.linalg.eigh(embedding.T @ embedding)
        embedding = embedding @ directions[:, -plan.hidden_size :]
    else:
        embedding = torch.randn(len(embedding), plan.hidden_size)
    return SmallModel(plan.parts(target), embedding * (INITIAL_SPREAD / embedding.std()))
