"""A small target and drafters of every method with random weights, made in a moment.

The target's answers wander among eight tokens and the drafters know no others, so that about one draft in eight stands:
enough to see whether two engines compute the same network.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from paradraft.models.tiny import write_tiny_model
from paradraft.nets.config import NetConfig
from paradraft.nets.folder.card import Card
from paradraft.nets.folder.facts import open_target
from paradraft.nets.folder.saving import save_drafter_folder
from paradraft.nets.networks.build import build_net
from paradraft.nets.networks.medusa import MedusaNet
from paradraft.nets.vocabulary import DraftVocabulary

WIDTH, HEAD_DIM, DEPTH = 64, 32, 8
SIZES = {
    "hidden_size": WIDTH,
    "intermediate_size": 128,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": HEAD_DIM,
    "tie_word_embeddings": False,
    "max_position_embeddings": 2048,
}
SPOKEN = torch.arange(20, 252, 29)
METHODS = {
    "eagle3": {"num_layers": 1, "tap_layers": (1, 3, 5)},
    "peagle": {"num_layers": 2, "tap_layers": (1, 3, 5)},
    "dflash": {"num_layers": 2, "tap_layers": (1, 3, 5), "has_head_norms": True},
    "dspark": {
        "num_layers": 2,
        "tap_layers": (1, 3, 5),
        "has_head_norms": True,
        "markov_rank": 8,
        "has_confidence": True,
    },
    "medusa": {"num_layers": 0, "tap_layers": (DEPTH - 1,)},
}


def write_target(folder: Path) -> Path:
    """Write the target; larger projections make its answers wander, a larger head makes them use few tokens."""
    write_tiny_model(folder, "llama", 3, SIZES)
    file = folder / "model.safetensors"
    state = load_file(file)
    scaled = {name: tensor * 2.0 if name.endswith("proj.weight") else tensor for name, tensor in state.items()}
    scaled["lm_head.weight"][SPOKEN] *= 4.0
    save_file(scaled, file, metadata={"format": "pt"})
    return folder


def write_drafter(folder: Path, target: Path, method: str) -> Path:
    """Write a drafter of a method for that target, in our own layout."""
    state = load_file(target / "model.safetensors")
    embedding, head = state["model.embed_tokens.weight"], state["lm_head.weight"]
    vocabulary = DraftVocabulary.of(SPOKEN, len(embedding))
    config = NetConfig(
        method=method,
        hidden_size=WIDTH,
        intermediate_size=96,
        num_heads=2,
        num_key_heads=1,
        head_dim=HEAD_DIM,
        norm_eps=1e-5,
        rope_theta=10_000.0,
        max_positions=2048,
        vocab_size=len(embedding),
        draft_vocab_size=vocabulary.size,
        block_size=4,
        mask_token_id=1,
        num_target_layers=DEPTH,
        **METHODS[method],
    )
    net = build_net(config, embedding, head[vocabulary.ids], vocabulary)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 1.5 * parameter.shape[-1] ** -0.5)
    if isinstance(net, MedusaNet):
        net.use_final_norm(state["model.norm.weight"])
    return save_drafter_folder(folder, net, Card(target=open_target(str(target))[1]))
