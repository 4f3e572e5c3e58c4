"""Small drafters as configurations and random tensors, for whatever reads and writes their folders."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paradraft.models.tables import Tables
from paradraft.models.tensors import stored_of
from paradraft.nets.config import NetConfig
from paradraft.nets.folder.card import Card, TargetFacts, TrainingSource
from paradraft.nets.shapes import wanted_tensors
from paradraft.nets.vocabulary import DraftVocabulary

VOCAB = 96
DRAFT_VOCAB = 24
WIDTH = 32
DEPTH = 12
METHODS = ("dflash", "dspark", "eagle3", "peagle", "medusa")
BLOCK_TAPS, EAGLE_TAPS = (1, 4, 8), (1, 5, 8)


@dataclass(frozen=True)
class Weights:
    """What `save_drafter_folder` takes as a network."""

    config: NetConfig
    tensors: dict[str, Tensor]

    def state_dict(self) -> dict[str, Tensor]:
        return self.tensors


def drafter_config(method: str, **changes: object) -> NetConfig:
    """Return a small configuration as the method is usually set up, with changes."""
    usual: dict[str, object] = {
        "method": method,
        "hidden_size": WIDTH,
        "intermediate_size": 48,
        "num_layers": {"eagle3": 1, "medusa": 0}.get(method, 2),
        "num_heads": 4,
        "num_key_heads": 2,
        "head_dim": 8,
        "norm_eps": 1e-6,
        "rope_theta": 100_000.0,
        "max_positions": 512,
        "vocab_size": VOCAB,
        "draft_vocab_size": DRAFT_VOCAB,
        "block_size": 4,
        "mask_token_id": 2,
        "tap_layers": {"dflash": BLOCK_TAPS, "dspark": BLOCK_TAPS, "medusa": (DEPTH - 1,)}.get(method, EAGLE_TAPS),
        "num_target_layers": DEPTH,
        "has_head_norms": method in ("dflash", "dspark"),
        "markov_rank": 6 if method == "dspark" else 0,
        "has_confidence": method == "dspark",
    }
    return NetConfig(**{**usual, **changes})


def drafter(method: str, seed: int = 0, **changes: object) -> Weights:
    """Return a small drafter with random tensors."""
    config = drafter_config(method, **changes)
    generator = torch.Generator().manual_seed(seed)
    wanted = wanted_tensors(config)
    shapes = {**wanted.required, **({"norm.weight": (config.hidden_size,)} if method == "medusa" else {})}
    state = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    if config.is_reduced:
        kept = torch.randperm(config.vocab_size, generator=generator)[: config.draft_vocab_size]
        vocabulary = DraftVocabulary.of(kept, config.vocab_size)
        state |= {"d2t": vocabulary.d2t, "t2d": vocabulary.t2d}
    return Weights(config, state)


def full_drafter(method: str, *, vocab_size: int = VOCAB, **changes: object) -> Weights:
    """Return a small drafter of the whole vocabulary."""
    return drafter(method, vocab_size=vocab_size, draft_vocab_size=vocab_size, **changes)


def tables(embedding: Tensor, head: Tensor) -> Tables:
    """Return these tables as a target's."""
    return Tables(embedding=stored_of(embedding), head=stored_of(head))


def facts(**changes: object) -> TargetFacts:
    """Return the target that the drafters here are made for, with changes."""
    usual: dict[str, object] = {
        "name": "toy",
        "sha256": "a" * 64,
        "hidden_size": WIDTH,
        "num_layers": DEPTH,
        "vocab_size": VOCAB,
        "tokenizer_sha256": "b" * 64,
        "template_sha256": "c" * 64,
    }
    return TargetFacts(**{**usual, **changes})


def card(**changes: object) -> Card:
    """Return a full card for that target, with changes."""
    usual: dict[str, object] = {
        "target": facts(),
        "revision": "0123abcd",
        "sources": (TrainingSource(name="sums", licence="MIT", num_tokens=1000),),
        "training": {"steps": 10, "loss": "ce"},
        "acceptance": {"sums T=0 tau": 1.5},
        "licence": "Apache-2.0",
    }
    return Card(**{**usual, **changes})
