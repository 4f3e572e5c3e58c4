"""What all serving networks share: what they say of themselves, their cache, and their weights until they close."""

from __future__ import annotations

from typing import Generic, TypeVar

from paradraft.core.errors import ProtocolError
from paradraft.models.kv_store import KvShape, KvStore
from paradraft.nets.config import NetConfig
from paradraft.nets.networks.corrected import CorrectedNet
from paradraft.nets.serving.marginals import MarginalHeads
from paradraft.nets.serving.place import ServingPlace

Weights = TypeVar("Weights")


class ServingNetwork(Generic[Weights]):
    """The part of drafters.neural.ports.Network that does not depend on the method."""

    def __init__(
        self, net: CorrectedNet, weights: Weights, place: ServingPlace, *, shift: int, store: KvStore | None = None
    ) -> None:
        """Take copies of the net's weights, and the cache if contexts have one; both are freed by close."""
        config = net.config
        self.name = config.method
        self.tap_layers = config.tap_layers
        self.tap_size = config.num_taps * config.hidden_size
        self.block_size = config.block_size
        self.shift = shift
        self.max_positions = config.max_positions
        self.heads = MarginalHeads(net)
        self.extra_bytes = net.num_served * place.dtype.itemsize + self.heads.num_bytes
        if store is not None:
            self.extra_bytes += place.num_pages * place.page_size * store.shape.bytes_per_token(place.dtype)
        self._place = place
        self._weights: Weights | None = weights
        self._store = store

    def opened(self) -> Weights:
        """Return the weights; raise ProtocolError if the network is closed."""
        if self._weights is None:
            raise ProtocolError("The drafting network is closed.", remedy="Build another one.")
        return self._weights

    def close(self) -> None:
        """Free the cache and the weights."""
        self._weights = None
        if self._store is not None:
            self._store.close()


def open_store(config: NetConfig, place: ServingPlace) -> KvStore:
    """Return an empty cache for the contexts of all rows."""
    shape = KvShape(
        num_layers=config.num_layers,
        num_heads=config.num_key_heads,
        key_dim=config.head_dim,
        value_dim=config.head_dim,
    )
    return KvStore(shape, num_pages=place.num_pages, page_size=place.page_size, dtype=place.dtype, device=place.device)
