"""An engine over a tiny target with the drafter that was trained on it, and what became of each round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from paradraft import LLM
from paradraft.core.arrays import IntArray
from paradraft.core.ports import Scores
from paradraft.core.records import Batch, Plan, Proposal, Verdict
from paradraft.drafters.neural.drafter import NeuralDrafter, NeuralOptions
from paradraft.kv.pages import PageCache
from paradraft.nets.networks.build import restore_net
from paradraft.nets.networks.net import Net
from paradraft.nets.serving.place import ServingPlace
from paradraft.nets.serving.serve import serve_net
from support.drafting_nets import native_network
from support.trained_pair import Pair

KV_TOKENS, PAGE_SIZE = 2048, 4


@dataclass(frozen=True)
class Round:
    """What one row's draft came to; the anchor is the place of the last known token."""

    row: int
    anchor: int
    drafted: int
    accepted: int


class Watch:
    """Passes everything on to a drafter and writes down the rounds."""

    def __init__(self, inner: NeuralDrafter) -> None:
        self.inner, self.needs = inner, inner.needs
        self.rounds: list[Round] = []

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        return self.inner.propose(batch, plan)

    def observe(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> None:
        for index in range(batch.num_rows):
            drafted = int(proposal.num_nodes[index])
            if drafted:
                anchor = len(batch.known(index)) - 1
                self.rounds.append(Round(int(batch.rows[index]), anchor, drafted, len(verdict.path_of(index))))
        self.inner.observe(batch, proposal, scores, verdict)

    def forget(self, rows: IntArray) -> None:
        self.inner.forget(rows)


def tapped_elsewhere(net: Net, shift: int) -> Net:
    """Return the same weights, reading layers `shift` higher."""
    config = replace(net.config, tap_layers=tuple(layer + shift for layer in net.config.tap_layers))
    return restore_net(config, net.state_dict(), net.embed_tokens.weight, net.lm_head.weight)


@contextmanager
def serving(
    pair: Pair, net: Net | None = None, *, kv_tokens: int = KV_TOKENS, is_native: bool = False, **options: object
) -> Iterator[tuple[LLM, Watch]]:
    """Serve the pair's target with its net (or another); options are NeuralOptions fields, or else Config fields.

    is_native: the net runs on the native core.
    """
    own = {
        name: options.pop(name) for name in ("width", "is_sampled", "node_cost", "num_candidates") if name in options
    }
    place = ServingPlace(
        dtype=torch.float32, device=torch.device("cpu"), num_pages=kv_tokens // PAGE_SIZE, page_size=PAGE_SIZE
    )
    size = {"num_pages": kv_tokens // PAGE_SIZE, "page_size": PAGE_SIZE}
    network = native_network(net or pair.net, **size) if is_native else serve_net(net or pair.net, place)
    drafter = NeuralDrafter(network, PageCache(**size), options=NeuralOptions(**{"node_cost": 0.0, **own}))
    watch = Watch(drafter)
    config = {"dtype": "fp32", "kv_tokens": kv_tokens, "page_size": PAGE_SIZE, "adaptive": False, "seed": 3, "gamma": 4}
    with LLM(str(pair.folder), custom=watch, **{**config, **options}) as llm:
        yield llm, watch
        assert not llm.engine.drafter.failures, llm.engine.drafter.last_reason
