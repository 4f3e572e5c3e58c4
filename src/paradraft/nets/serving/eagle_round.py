"""One round of an EAGLE network: the nodes drafted so far, their keys and values, and who sees whom.

Legend: R rows, n new nodes, J nodes of a row so far, L entries of a row, N key heads, D head size, d hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from paradraft.core.arrays import IntArray, ints
from paradraft.core.errors import ProtocolError
from paradraft.models.kv_store import KvStore, Slots
from paradraft.nets.networks.branch_attention import KeyValues, attend_branches
from paradraft.nets.serving.eagle_weights import ServedEagle
from paradraft.nets.serving.place import as_tensor
from paradraft.nets.serving.rounds import DraftFeed
from paradraft.nets.serving.steps import Level

NO_PARENT = -1
Place = tuple[int, int]  # a row and the number of one of its nodes


@dataclass(slots=True, eq=False)
class _Row:
    """The nodes of one row: `seen[i]` are those that node i of the row sees, itself included."""

    context: Slots
    position: int  # of the anchor's entry
    kept: list[list[KeyValues]]  # by layer, in the order of the nodes
    seen: list[frozenset[int]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Step:
    """New nodes, grouped by row: part i of them, starts[i] .. starts[i + 1], belongs to rows[i]."""

    nodes: _Nodes
    rows: Sequence[int]
    starts: Sequence[int]

    def mix(self, layer: int, queries: Tensor, kept: KeyValues) -> Tensor:
        """See served_eagle.Mixer."""
        parts = [
            self.nodes.attend(row, layer, queries[low:high], (kept[0][low:high], kept[1][low:high]))
            for row, (low, high) in zip(self.rows, pairwise(self.starts), strict=True)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


class _Nodes:
    """All rows' nodes and the cache behind them."""

    def __init__(self, store: KvStore, feed: DraftFeed, num_layers: int, device: torch.device) -> None:
        self._store = store
        self._device = device
        slots = [feed.context_slots[low:high] for low, high in pairwise(feed.context_starts.tolist())]
        self.rows = [
            _Row(context=Slots.of(part, device), position=position, kept=[[] for _ in range(num_layers)])
            for part, position in zip(slots, feed.positions.tolist(), strict=True)
        ]
        self._texts: dict[tuple[int, int], KeyValues] = {}

    def grow(self, above: Sequence[Place]) -> tuple[list[Place], IntArray, _Step]:
        """Add a node below each place, those of one row together; return places, positions and step of the new ones."""
        new = [(row, self._add(row, parent)) for row, parent in above]
        rows = [row for row, _ in new]
        firsts = [at for at, row in enumerate(rows) if at == 0 or rows[at - 1] != row]
        positions = [self.rows[row].position + len(self.rows[row].seen[node]) - 1 for row, node in new]
        return new, ints(positions), _Step(nodes=self, rows=[rows[at] for at in firsts], starts=[*firsts, len(new)])

    def _add(self, row: int, parent: int) -> int:
        """Add a node below one of the row's; return its number in the row."""
        seen = self.rows[row].seen
        above = frozenset() if parent == NO_PARENT else seen[parent]
        seen.append(above | {len(seen)})
        return len(seen) - 1

    def attend(self, row: int, layer: int, queries: Tensor, kept: KeyValues) -> Tensor:
        """Keep keys and values [n, N, D] of a row's newest nodes and return what their queries gather, [n, H * D]."""
        own = self.rows[row].kept[layer]
        own.append(kept)
        keys, values = (torch.cat([pair[part] for pair in own]).unsqueeze(0) for part in (0, 1))
        sees = self._sees(row, len(queries), keys.shape[1])
        mixed = attend_branches(queries.unsqueeze(0), self._text(row, layer), (keys, values), sees=None, own_sees=sees)
        return mixed.squeeze(0)

    def _sees(self, row: int, count: int, known: int) -> Tensor | None:
        newest = self.rows[row].seen[known - count : known]
        if all(len(seen) == known for seen in newest):
            return None
        table = [[node in seen for node in range(known)] for seen in newest]
        return torch.tensor(table, dtype=torch.bool, device=self._device)

    def _text(self, row: int, layer: int) -> KeyValues:
        """Return keys and values [N, L, D] of the row's entries; gathered at most once a round."""
        found = self._texts.get((row, layer))
        if found is None:
            keys, values = self._store.read(layer, self.rows[row].context)
            found = self._texts[row, layer] = keys.squeeze(1), values.squeeze(1)
        return found


class EagleRound:
    """Implements nets.serving.steps.SteppedRound."""

    def __init__(self, net: ServedEagle, store: KvStore, ids: Tensor, feed: DraftFeed) -> None:
        """Feed the anchors; ids [Vd] are the target's of the draft vocabulary."""
        self._net, self._ids, self._feed = net, ids, feed
        self._nodes = _Nodes(store, feed, net.config.num_layers, net.place.device)
        self._places: list[Place] = []  # of each node of the round
        with torch.inference_mode():
            embedded = net.embed(as_tensor(feed.anchors, net.place.device))
            features = net.features(as_tensor(feed.taps, net.place.device))
            self._states = self._run([(row, NO_PARENT) for row in range(len(feed.anchors))], embedded, features)
            self.anchors = self._level(self._states, list(range(len(feed.anchors))))

    def extend(self, parents: IntArray, tokens: IntArray) -> Level:
        """Add a drafted token [n] below each of these nodes [n]; nodes of one row stand together."""
        with torch.inference_mode():
            above = [self._places[parent] for parent in parents.tolist()]
            embedded = self._net.embed(as_tensor(ints(tokens), self._net.place.device))
            states = self._run(above, embedded, self._states[as_tensor(ints(parents), self._states.device)])
            self._states = torch.cat([self._states, states])
            return self._level(states, [row for row, _ in above])

    def _run(self, above: Sequence[Place], embedded: Tensor, features: Tensor) -> Tensor:
        """Add a node below each place and return the new nodes' last states."""
        new, positions, step = self._nodes.grow(above)
        self._places += new
        return self._net.run(embedded, features, as_tensor(positions, embedded.device), step)

    def _level(self, states: Tensor, rows: list[int]) -> Level:
        logits = self._net.logits(self._net.head_input(states))
        best = torch.topk(logits, min(self._feed.num_candidates, logits.shape[-1]), dim=-1)
        temperatures = as_tensor(self._feed.temperatures[rows], logits.device)
        return Level(
            ids=self._ids[best.indices].to(torch.int32).cpu().numpy(),
            logits=best.values.cpu().numpy(),
            log_total=torch.logsumexp(logits / temperatures[:, None], dim=-1).cpu().numpy(),
        )


def masked_states(net: ServedEagle, store: KvStore, feed: DraftFeed, count: int) -> Tensor:
    """Run the anchors with `count` masked slots behind each in one pass; return their last states [R, 1 + count, d]."""
    if net.mask is None:
        raise ProtocolError("This network has no masked slots.", remedy="Use a P-EAGLE network.")
    rows, device = len(feed.anchors), net.place.device
    embedded = net.embed(as_tensor(feed.anchors, device)).unsqueeze(1)
    features = net.features(as_tensor(feed.taps, device)).unsqueeze(1)
    masks = [mask.expand(rows, count, -1) for mask in net.mask]
    nodes = _Nodes(store, feed, net.config.num_layers, device)
    _, positions, step = nodes.grow([(row, node) for row in range(rows) for node in range(NO_PARENT, count)])
    pairs = [torch.cat(parts, dim=1).flatten(0, 1) for parts in ((embedded, masks[0]), (features, masks[1]))]
    return net.run(pairs[0], pairs[1], as_tensor(positions, device), step).view(rows, 1 + count, -1)
