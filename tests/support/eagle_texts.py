"""Two texts for networks of the EAGLE family, fed in chunks, and what full recomputation says of them."""

from __future__ import annotations

import numpy as np
import torch

from paradraft.core.arrays import IntArray, ints, starts_of
from paradraft.nets.networks.eagle import EagleNet
from paradraft.nets.networks.records import TrainingBatch
from paradraft.nets.serving.eagle import EagleNetwork
from paradraft.nets.serving.native_eagle import NativeEagleNetwork
from paradraft.nets.serving.place import ServingPlace
from paradraft.nets.serving.rounds import ContextFeed, DraftFeed
from paradraft.nets.serving.serve import serve_net
from support.drafting_nets import native_network
from support.nets import net_config, tiny_net

PLACE = ServingPlace(dtype=torch.float32, device=torch.device("cpu"), num_pages=16, page_size=4)
LENGTHS = (13, 9)


def served(
    method: str, *, is_native: bool = False, dtype: str = "fp32", **changes: object
) -> tuple[EagleNet, EagleNetwork | NativeEagleNetwork]:
    """Return a tiny network as it trains and as it serves, on torch in fp32 or on the native core."""
    net = tiny_net(net_config(method, **changes))
    assert isinstance(net, EagleNet)
    size = {"num_pages": PLACE.num_pages, "page_size": PLACE.page_size}
    network = native_network(net, dtype=dtype, **size) if is_native else serve_net(net, PLACE)
    assert isinstance(network, NativeEagleNetwork if is_native else EagleNetwork)
    return net, network


def slots_of(row: int, is_scattered: bool) -> IntArray:
    """Return the row's slots: a run, or pages in another order."""
    slots = np.arange(row * 32, row * 32 + 32, dtype=np.int32)
    return slots.reshape(-1, 4)[::-1].reshape(-1) if is_scattered else slots


def feed_texts(
    network: EagleNetwork | NativeEagleNetwork,
    example: TrainingBatch,
    ends: list[int],
    chunk: int,
    *,
    is_scattered: bool,
) -> None:
    """Append the entries below each row's end, rows together, `chunk` at a time."""
    bounds = starts_of(list(LENGTHS)).tolist()
    for begin in range(0, max(ends), chunk):
        parts = [np.arange(begin, min(begin + chunk, end), dtype=np.int32) for end in ends]
        places = ints([bounds[row] + at for row, part in enumerate(parts) for at in part.tolist()])
        earlier = [min(begin, end) for end in ends]
        network.append(
            ContextFeed(
                starts=starts_of([len(part) for part in parts]),
                tokens=ints(example.ids[places + 1].numpy()),
                taps=example.taps[places].numpy(),
                positions=ints(np.concatenate(parts)),
                slots=ints(np.concatenate([slots_of(row, is_scattered)[part] for row, part in enumerate(parts)])),
                context_starts=starts_of(earlier),
                context_slots=ints(
                    np.concatenate([slots_of(row, is_scattered)[:count] for row, count in enumerate(earlier)])
                ),
            )
        )


def draft_feed(
    example: TrainingBatch, ends: list[int], depth: int = 4, *, is_scattered: bool = False, candidates: int = 60
) -> DraftFeed:
    """Return the feed of rows whose anchors stand one behind their ends."""
    bounds = starts_of(list(LENGTHS)).tolist()
    rows = range(len(ends))
    return DraftFeed(
        anchors=ints([int(example.ids[bounds[row] + ends[row] + 1]) for row in rows]),
        positions=ints(ends),
        taps=example.taps[[bounds[row] + ends[row] for row in rows]].numpy(),
        temperatures=np.array([1.0, 0.5], dtype=np.float32)[: len(ends)],
        context_starts=starts_of(ends),
        context_slots=ints(np.concatenate([slots_of(row, is_scattered)[: ends[row]] for row in rows])),
        scratch_starts=starts_of([5] * len(ends)),
        scratch_slots=ints(np.concatenate([slots_of(row, is_scattered)[ends[row] :][:5] for row in rows])),
        depth=depth,
        num_candidates=candidates,
    )


def logits_of(ids: IntArray, logits: np.ndarray, size: int = 90) -> np.ndarray:
    """Spread candidates [..., C] over the target's vocabulary."""
    spread = np.full((*ids.shape[:-1], size), -np.inf, dtype=np.float32)
    np.put_along_axis(spread, ids.astype(np.int64), logits, -1)
    return spread


def expected(net: EagleNet, example: TrainingBatch, ends: list[int], drafted: IntArray | None = None) -> np.ndarray:
    """Return the logits [R, K, V] of full recomputation, the text behind the anchors replaced by what was drafted."""
    bounds = starts_of(list(LENGTHS)).tolist()
    found = []
    for row, end in enumerate(ends):
        low, anchor = bounds[row], end + 1
        ids = example.ids[low : low + anchor + 1]
        behind = torch.zeros(5, dtype=torch.int64) if drafted is None else torch.from_numpy(drafted[row].astype(int))
        ids = torch.cat([ids, behind])
        taps = torch.zeros(len(ids), example.taps.shape[1])
        taps[:anchor] = example.taps[low : low + anchor]
        text = TrainingBatch(ids=ids, taps=taps, anchors=torch.tensor([anchor]), doc=torch.zeros(len(ids), dtype=int))
        with torch.no_grad():
            logits = net.draft_training(text).logits[0]
        spread = torch.full((len(logits), 90), -torch.inf)
        spread[:, net.vocabulary.ids] = logits
        found.append(spread.numpy())
    return np.stack(found)
