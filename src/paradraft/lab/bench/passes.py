"""What single passes of a target cost: one known token and a chain of drafts behind a text, several sizes in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np

from paradraft.core.arrays import IntArray, ints, starts_of
from paradraft.core.errors import ConfigError
from paradraft.core.ports import Limits, Target
from paradraft.core.records import Batch, Proposal, RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.lab.bench.measures import Spread
from paradraft.lab.provenance import Provenance

CONTEXT = 256  # tokens before the pass
PASSES_FORMAT = "paradraft-passes-1"
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class PassCost:
    """The cost of a pass over so many tokens."""

    tokens: int
    milliseconds: Spread


@dataclass(frozen=True, kw_only=True, slots=True)
class PassReport:
    """All sizes, and how fast memory was read right before and after: a pass reads all weights once."""

    format: str
    provenance: Provenance
    context: int
    rounds: int
    weight_bytes: int
    read_bandwidth_gb_s: float
    passes: tuple[PassCost, ...]


def measure_passes(
    target: Target, sizes: Sequence[int], *, rounds: int, progress: Progress, clock: Callable[[], float] = perf_counter
) -> tuple[PassCost, ...]:
    """Return the cost of a pass of each size; every round runs all sizes, so that a busy moment hits them alike.

    The target is overwritten from its first page on. Raises ConfigError if it has no room for a size.
    """
    _check_room(target.limits, max(sizes))
    tokens = ints(np.random.default_rng(0).integers(0, target.limits.vocab_size, CONTEXT + max(sizes)))
    _run(target, _batch(target.limits, tokens[:CONTEXT], 0), Proposal.empty(1))
    seconds: dict[int, list[float]] = {size: [] for size in sizes}
    for done in range(rounds + 1):
        for size in sizes:
            batch = _batch(target.limits, tokens[: CONTEXT + 1], CONTEXT)
            proposal = Proposal.chains([tokens[CONTEXT + 1 : CONTEXT + size]])
            started = clock()
            _run(target, batch, proposal)
            if done:  # the first round warms up
                seconds[size].append(clock() - started)
        progress(done, rounds)
    return tuple(PassCost(tokens=size, milliseconds=_spread(seconds[size])) for size in sizes)


def _check_room(limits: Limits, size: int) -> None:
    room = min(limits.max_positions, limits.num_pages * limits.page_size)
    if CONTEXT + size > room:
        raise ConfigError(
            f"A pass over {size} tokens behind {CONTEXT} does not fit: there is room for {room}.",
            remedy=f"Measure up to {max(room - CONTEXT, 0)} tokens, or set kv_tokens higher.",
        )


def _run(target: Target, batch: Batch, proposal: Proposal) -> None:
    target.submit(batch, proposal).wait().argmax()


def _batch(limits: Limits, tokens: IntArray, cached: int) -> Batch:
    """Return one row that feeds tokens[cached:] and is scored at the last of them."""
    params = SamplingParams(temperature=0.0)
    return Batch(
        rows=ints([0]),
        starts=starts_of([len(tokens) - cached]),
        tokens=tokens[cached:],
        context_len=ints([cached]),
        num_scored=ints([1]),
        page_starts=starts_of([limits.num_pages]),
        pages=ints(np.arange(limits.num_pages)),
        page_size=limits.page_size,
        history=(tokens,),
        sampling=(RowSampling(params=params, seed=0, choice=0, prompt_len=len(tokens), stop_ids=()),),
    )


def _spread(seconds: Sequence[float]) -> Spread:
    return Spread(
        median=round(1e3 * median(seconds), 4), min=round(1e3 * min(seconds), 4), max=round(1e3 * max(seconds), 4)
    )
