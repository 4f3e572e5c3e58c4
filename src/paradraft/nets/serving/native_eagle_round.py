"""One round of EAGLE-3 on the native core: the nodes drafted so far, where their keys lie, and who sees whom.

New nodes below one parent see the same, the entries of their row and the path to the parent. To the core they are a row
of a pass, and that path is the end of its context. Legend: R rows, n new nodes, J nodes so far, d hidden size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from paradraft.core.arrays import FloatArray, IntArray, ints, join, starts_of
from paradraft.core.errors import ProtocolError
from paradraft.native.records import PassInput
from paradraft.nets.serving.native_network import NativeNetwork, summary_of
from paradraft.nets.serving.native_weights import rows_of
from paradraft.nets.serving.rounds import DraftFeed
from paradraft.nets.serving.steps import Level


class NativeEagleRound:
    """Implements nets.serving.steps.SteppedRound."""

    def __init__(self, network: NativeNetwork, feed: DraftFeed) -> None:
        """Feed the anchors."""
        self._network, self._feed = network, feed
        self._entries = _parts(feed.context_slots, feed.context_starts)
        self._scratch = [iter(part.tolist()) for part in _parts(feed.scratch_slots, feed.scratch_starts)]
        self._spare: Iterator[int] = iter(network.spare)
        self._rows: list[int] = []  # of each node, as below
        self._seen: list[IntArray] = []  # the slots that it and its siblings see, but for its own
        self._slots: list[int] = []
        self._states: FloatArray = np.empty((0, network.config.hidden_size), dtype=np.float32)  # [J, d]
        rows = list(range(len(feed.anchors)))
        given = self._pass(rows, rows, self._entries, feed.anchors)
        taps = np.ascontiguousarray(feed.taps, dtype=np.float32)
        self.anchors = self._level(replace(given, tapped=ints(rows), taps=taps))

    def extend(self, parents: IntArray, tokens: IntArray) -> Level:
        """Add a drafted token [n] below each of these nodes [n]; nodes of one row stand together.

        Raises ProtocolError if there are more nodes than a round has slots for.
        """
        above = parents.tolist()
        firsts = [at for at, parent in enumerate(above) if at == 0 or above[at - 1] != parent]
        seen = [join([self._seen[above[at]], [self._slots[above[at]]]]) for at in firsts]
        states = self._states[parents]
        given = self._pass([self._rows[parent] for parent in above], firsts, seen, tokens)
        return self._level(replace(given, states=states))

    def _pass(self, rows: list[int], firsts: list[int], seen: Sequence[IntArray], tokens: IntArray) -> PassInput:
        """Note new nodes of these rows and return their pass; siblings begin at `firsts` and see `seen`."""
        bounds = list(pairwise([*firsts, len(rows)]))
        self._rows += rows
        self._slots += (slots := [self._slot_of(row) for row in rows])
        self._seen += [part for part, (first, stop) in zip(seen, bounds, strict=True) for _ in range(first, stop)]
        depths = [len(part) - len(self._entries[row]) for part, row in zip(self._seen[-len(rows) :], rows, strict=True)]
        return PassInput(
            row_starts=ints([*firsts, len(rows)]),
            positions=ints(self._feed.positions[rows] + depths),
            slots=ints(slots),
            parents=np.full(len(rows), -1, dtype=np.int32),
            context_starts=starts_of([len(part) for part in seen]),
            context_slots=join(seen),
            scored=ints(range(len(rows))),
            hidden_layers=ints([self._network.config.num_layers - 1]),
            sides=rows_of(self._network.weights.embedding, tokens),
            summary=self._network.terms(self._feed, self._feed.temperatures[rows]),
        )

    def _level(self, given: PassInput) -> Level:
        output = self._network.opened().run(given)
        self._states = np.concatenate([self._states, *output.hidden.values()])
        summary = summary_of(output)
        return Level(
            ids=self._network.weights.ids[summary.candidates], logits=summary.logits, log_total=summary.log_totals
        )

    def _slot_of(self, row: int) -> int:
        """Return a free slot, of the row's own as long as it has any: there they lie behind its entries."""
        for slots in (self._scratch[row], self._spare):
            for slot in slots:
                return slot
        raise ProtocolError(
            f"A round has more nodes than its rows have slots for, and the {len(self._network.spare)} beside them.",
            remedy="Set draft_width lower.",
        )


def _parts(values: IntArray, starts: IntArray) -> list[IntArray]:
    return [values[first:stop] for first, stop in pairwise(starts.tolist())]
