"""Tiny drafting networks of every method, and texts for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from paradraft.nets.config import NetConfig
from paradraft.nets.networks.build import build_net
from paradraft.nets.networks.net import Net
from paradraft.nets.networks.records import TrainingBatch
from paradraft.nets.vocabulary import DraftVocabulary

NET_VOCAB, HIDDEN = 90, 32
OWN: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "eagle3": {"num_layers": 1, "tap_layers": (0, 1, 2)},
        "peagle": {"num_layers": 2, "tap_layers": (0, 1, 2)},
        "medusa": {"num_layers": 0, "tap_layers": (3,)},
    }
)


def net_config(method: str, **changes: object) -> NetConfig:
    """Return the configuration of a tiny network."""
    values: dict[str, object] = {
        "method": method,
        "hidden_size": HIDDEN,
        "intermediate_size": 48,
        "num_heads": 4,
        "num_key_heads": 2,
        "head_dim": 8,
        "norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "max_positions": 512,
        "vocab_size": NET_VOCAB,
        "draft_vocab_size": 60,
        "block_size": 4,
        "mask_token_id": 5,
        "num_target_layers": 4,
        **OWN[method],
        **changes,
    }
    return NetConfig(**values)  # type: ignore[arg-type]


def tiny_net(config: NetConfig, seed: int = 0) -> Net:
    """Return a network with random weights, large enough for every part to matter."""
    generator = torch.Generator().manual_seed(seed)
    embedding = torch.randn(config.vocab_size, config.hidden_size, generator=generator)
    ids = torch.randperm(config.vocab_size, generator=generator)[: config.draft_vocab_size]
    vocabulary = DraftVocabulary.of(ids, config.vocab_size)
    net = build_net(config, embedding, embedding[vocabulary.ids], vocabulary)
    with torch.no_grad():
        for parameter in net.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1.0 + 0.2 * noise if parameter.ndim == 1 else noise * parameter.shape[-1] ** -0.5)
    return net


def example_of(config: NetConfig, lengths: tuple[int, ...], anchors: list[int], seed: int = 1) -> TrainingBatch:
    """Return packed random texts of these lengths with these anchors."""
    generator = torch.Generator().manual_seed(seed)
    total = sum(lengths)
    doc = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return TrainingBatch(
        ids=torch.randint(config.vocab_size, (total,), generator=generator),
        taps=torch.randn(total, config.num_taps * config.hidden_size, generator=generator),
        anchors=torch.tensor(anchors),
        doc=doc,
    )


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-4) -> bool:
    """Whether two tensors of one shape agree."""
    return found.shape == expected.shape and bool(torch.allclose(found, expected, atol=tolerance, rtol=tolerance))
