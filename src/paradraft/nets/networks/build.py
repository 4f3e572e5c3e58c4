"""Builds the network that a configuration describes; the only place that knows them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from torch import Tensor

from paradraft.core.errors import ModelError
from paradraft.nets.config import NetConfig
from paradraft.nets.networks.block import BlockNet
from paradraft.nets.networks.eagle import EagleNet
from paradraft.nets.networks.medusa import MedusaNet
from paradraft.nets.networks.net import Net
from paradraft.nets.shapes import EMBEDDING, HEAD, check_table
from paradraft.nets.vocabulary import DraftVocabulary

Maker = Callable[[NetConfig, Tensor, Tensor, DraftVocabulary], Net]

NETS: Mapping[str, Maker] = MappingProxyType(
    {"dflash": BlockNet, "dspark": BlockNet, "eagle3": EagleNet, "peagle": EagleNet, "medusa": MedusaNet}
)


def build_net(config: NetConfig, embedding: Tensor, head: Tensor, vocabulary: DraftVocabulary) -> Net:
    """Return a fresh network; embedding [V, d] and head [Vd, d] are the target's rows and stay frozen.

    Raises ModelError for a configuration that cannot be right or tables that do not fit it.
    """
    config.check()
    if config.method not in NETS:
        raise ModelError(f"No network drafts by {config.method!r}.", remedy=f"Known are {', '.join(NETS)}.")
    vocabulary.check(vocab_size=config.vocab_size, size=config.draft_vocab_size)
    check_table(config, EMBEDDING, tuple(embedding.shape))
    check_table(config, HEAD, tuple(head.shape))
    return NETS[config.method](config, embedding, head, vocabulary)


def restore_net(config: NetConfig, state: Mapping[str, Tensor], embedding: Tensor, head: Tensor) -> Net:
    """Return the network with these weights; embedding and head are the target's, both [V, d].

    Tables that the state brings along are used instead. Raises ModelError for names or shapes that do not fit.
    """
    config.check()
    vocabulary = _vocabulary(config, state)
    own_head = state.get(HEAD)
    if own_head is None:
        own_head = head if vocabulary.is_full else head[vocabulary.ids.to(head.device)]
    net = build_net(config, state.get(EMBEDDING, embedding), own_head, vocabulary)
    net.restore(state)
    return net


def _vocabulary(config: NetConfig, state: Mapping[str, Tensor]) -> DraftVocabulary:
    if "d2t" in state and "t2d" in state:
        return DraftVocabulary(state["d2t"], state["t2d"])
    if config.is_reduced:
        raise ModelError(
            f"The drafter names {config.draft_vocab_size} of {config.vocab_size} tokens and does not say which: "
            "d2t or t2d is missing.",
            remedy="Export the drafter again with both tables.",
        )
    return DraftVocabulary.full(config.vocab_size)
