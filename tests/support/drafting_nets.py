"""Tiny block networks, serving forms of networks, and feeds written by hand."""

from __future__ import annotations

import numpy as np
import torch

from paradraft.core.arrays import ints, starts_of
from paradraft.models.tensors import stored_of
from paradraft.models.tiny import tiny_config, tiny_tensors
from paradraft.nets.config import NetConfig
from paradraft.nets.folder.borrowed import NetTensors
from paradraft.nets.networks.build import build_net
from paradraft.nets.networks.net import Net
from paradraft.nets.serving.block import BlockNetwork
from paradraft.nets.serving.native import NativeServed, serve_on_core
from paradraft.nets.serving.place import ServingPlace
from paradraft.nets.serving.rounds import ContextFeed, DraftFeed
from paradraft.nets.shapes import EMBEDDING, HEAD
from paradraft.nets.vocabulary import DraftVocabulary
from support.native import native_runner

SIZE, VOCABULARY, DRAFTED = 32, 90, 60
PLACE = ServingPlace(dtype=torch.float32, device=torch.device("cpu"), num_pages=16, page_size=8)


def block_config(method: str = "dspark", **changes) -> NetConfig:
    values = {
        "method": method,
        "hidden_size": SIZE,
        "intermediate_size": 48,
        "num_layers": 2,
        "num_heads": 4,
        "num_key_heads": 2,
        "head_dim": 8,
        "norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_positions": 128,
        "vocab_size": VOCABULARY,
        "draft_vocab_size": DRAFTED,
        "block_size": 4,
        "mask_token_id": 3,
        "tap_layers": (0, 2),
        "num_target_layers": 4,
        "has_head_norms": True,
    }
    return NetConfig(**{**values, **changes})


def random_net(config: NetConfig, seed: int = 0, spread: float = 0.3):
    """Return a network all of whose weights are drawn, heads and norms too, so that no part hides."""
    torch.manual_seed(seed)
    vocabulary = DraftVocabulary.of(torch.randperm(config.vocab_size)[: config.draft_vocab_size], config.vocab_size)
    embedding = torch.randn(config.vocab_size, config.hidden_size)
    net = build_net(config, embedding, embedding[vocabulary.ids] * 0.5, vocabulary)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.normal_(std=spread)
            if "norm" in name:
                parameter.add_(1.0)
    return net


def native_network(
    net: Net,
    *,
    dtype: str = "fp32",
    num_threads: int = 1,
    num_pages: int = PLACE.num_pages,
    page_size: int = PLACE.page_size,
) -> NativeServed:
    """Return the network on the native core, on the threads of a target of its own."""
    config = tiny_config("llama")
    size = {"num_pages": num_pages, "page_size": page_size}
    target = native_runner(config, tiny_tensors(config, seed=3), num_threads=num_threads, **size)
    tensors = {**net.state_dict(), EMBEDDING: net.embed_tokens.weight, HEAD: net.lm_head.weight}
    state = {name: stored_of(tensor) for name, tensor in tensors.items()}
    network = serve_on_core(net.config, NetTensors(state=state, embedding=state[EMBEDDING]), target, dtype=dtype)
    target.close()  # its threads live on with the network
    return network


class HandFed:
    """One row of a serving network: its context is appended in chunks, then it drafts."""

    def __init__(self, network: BlockNetwork | NativeServed, slots: np.ndarray | None = None) -> None:
        self.network = network
        self.slots = ints(np.arange(100) if slots is None else slots)
        self.count = 0

    def context_feed(self, tokens: np.ndarray, taps: np.ndarray) -> ContextFeed:
        count, had = len(taps), self.count
        self.count += count
        return ContextFeed(
            starts=starts_of([count]),
            tokens=ints(tokens),
            taps=taps,
            positions=ints(np.arange(had, had + count)),
            slots=self.slots[had : had + count],
            context_starts=starts_of([had]),
            context_slots=self.slots[:had],
        )

    def draft_feed(self, anchor: int, **changes) -> DraftFeed:
        num_scratch = self.network.block_size + 1
        values = {
            "anchors": ints([anchor]),
            "positions": ints([self.count]),
            "taps": np.zeros((1, len(self.network.tap_layers) * SIZE), np.float32),
            "temperatures": np.ones(1, np.float32),
            "context_starts": starts_of([self.count]),
            "context_slots": self.slots[: self.count],
            "scratch_starts": starts_of([num_scratch]),
            "scratch_slots": self.slots[self.count : self.count + num_scratch],
            "depth": self.network.block_size,
            "num_candidates": 16,
        }
        return DraftFeed(**{**values, **changes})


def joined(feeds: list[DraftFeed]) -> DraftFeed:
    """Return one feed for the rows of several."""

    def stack(name: str) -> np.ndarray:
        return np.concatenate([getattr(feed, name) for feed in feeds])

    return DraftFeed(
        **{name: stack(name) for name in ("anchors", "positions", "taps", "temperatures")},
        context_starts=starts_of([len(feed.context_slots) for feed in feeds]),
        context_slots=stack("context_slots"),
        scratch_starts=starts_of([len(feed.scratch_slots) for feed in feeds]),
        scratch_slots=stack("scratch_slots"),
        depth=max(feed.depth for feed in feeds),
        num_candidates=feeds[0].num_candidates,
    )
