"""Puts a network behind the drafter's port; the only place that knows which class serves which method."""

from __future__ import annotations

from paradraft.core.errors import ModelError
from paradraft.nets.networks.block import BlockNet
from paradraft.nets.networks.eagle import EagleNet
from paradraft.nets.networks.medusa import MedusaNet
from paradraft.nets.networks.net import Net
from paradraft.nets.serving.block import BlockNetwork
from paradraft.nets.serving.eagle import ChainNetwork, MaskedNetwork
from paradraft.nets.serving.medusa import MedusaNetwork
from paradraft.nets.serving.place import ServingPlace

ServedNetwork = BlockNetwork | ChainNetwork | MaskedNetwork | MedusaNetwork


def serve_net(net: Net, place: ServingPlace) -> ServedNetwork:
    """Return a network that drafts with the weights of `net`, which it copies; raise ModelError for a foreign one."""
    if isinstance(net, BlockNet):
        return BlockNetwork(net, place)
    if isinstance(net, EagleNet):
        return MaskedNetwork(net, place) if net.config.method == "peagle" else ChainNetwork(net, place)
    if isinstance(net, MedusaNet):
        return MedusaNetwork(net, place)
    raise ModelError(f"{type(net).__name__} cannot be served.", remedy="Build the network with build_net.")
