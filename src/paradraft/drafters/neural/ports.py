"""What a drafting network is to its drafter."""

from __future__ import annotations

from typing import Protocol

from paradraft.nets.serving.rounds import ContextFeed, DraftFeed, Marginals


class Network(Protocol):
    """A drafting network with a cache for the rows' contexts; who owns which slot is decided elsewhere."""

    name: str  # of the method
    tap_layers: tuple[int, ...]
    tap_size: int  # m * d
    block_size: int
    shift: int  # 1: entries join a tap with the token behind it (EAGLE), 0: they do not
    max_positions: int
    extra_bytes: int  # weights and cache

    def append(self, feed: ContextFeed) -> None:
        """Write the cache of new entries."""
        ...

    def draft(self, feed: DraftFeed) -> Marginals:
        """Return what comes next for each row."""
        ...

    def close(self) -> None:
        """Free the memory. The network cannot be used afterwards."""
        ...
