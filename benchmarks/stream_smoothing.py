"""How evenly streamed tokens come: as they are found, spread out, and at a fixed beat.

    python benchmarks/stream_smoothing.py --ms 40 80

Answers are made once, with the time at which each step told its tokens, and the same bursts then go through every pacer
of the server by that clock. So all ways are compared on the very same steps, however busy the machine was. Tells the
times between tokens (those of one packet have none between them), how long tokens were held, and how many packets went.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from paradraft.app.config import Config
from paradraft.app.llm import LLM
from paradraft.app.serving import warm_up
from paradraft.core.events import TokenEvent
from paradraft.core.sampling import SamplingParams
from paradraft.hub.prompts import read_prompts
from paradraft.server.options import ServerOptions
from paradraft.server.smoothing import Pacer, pacer_of

Trace = list[tuple[float, TokenEvent]]  # seconds since the request, and what a step told


@dataclass(slots=True)
class Seen:
    """What readers saw."""

    gaps: list[float] = field(default_factory=list)  # milliseconds between tokens
    held: list[float] = field(default_factory=list)  # milliseconds that each token waited
    num_packets: int = 0


def record(llm: LLM, text: str, tokens: int) -> Trace:
    """Return an answer as it came."""
    params = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True)
    ids = llm.encode_chat([{"role": "user", "content": text}])
    begun = time.perf_counter()
    return [(time.perf_counter() - begun, event) for event in llm.stream(ids, params)]


def replay(trace: Trace, pacer: Pacer, seen: Seen) -> None:
    """Send a trace by a pacer and note what came when."""
    coming, sent = list(trace), []
    while len(sent) < sum(len(event.token_ids) for _, event in trace):
        wakes_at = pacer.wakes_at()
        now = min([time for time in (wakes_at, coming[0][0] if coming else None) if time is not None])
        if coming and coming[0][0] == now:
            pacer.take([(0, coming.pop(0)[1])], now)
        for _, event in pacer.due(now) or ():
            sent += [now] * len(event.token_ids)
            seen.num_packets += 1
    came = [time for time, event in trace for _ in event.token_ids]
    seen.gaps += [1000 * (later - earlier) for earlier, later in pairwise(sent)]
    seen.held += [1000 * (out - found) for out, found in zip(sent, came, strict=True)]


def tell(way: str, seen: Seen) -> None:
    """Print a line."""
    gaps = sorted(seen.gaps)
    middle, high, last = (gaps[int(share * (len(gaps) - 1))] for share in (0.5, 0.9, 0.99))
    num_together = sum(gap < 0.5 for gap in gaps)
    print(
        f"{way:15} between tokens: mean {statistics.mean(gaps):5.1f} ms, spread {statistics.pstdev(gaps):5.1f}, "
        f"p50 {middle:5.1f}, p90 {high:5.1f}, p99 {last:5.1f}; {num_together} of {len(gaps)} at once; "
        f"held {statistics.mean(seen.held):4.1f} ms, at most {max(seen.held):5.1f}; {seen.num_packets} packets"
    )


def compare(traces: Sequence[Trace], bounds: Sequence[float]) -> None:
    """Print a line for each way."""
    ways = {"as found": ServerOptions()}
    for name in ("spread", "rhythm"):
        ways |= {f"{name} {bound:g} ms": ServerOptions(smoothing=name, smoothing_ms=bound) for bound in bounds}
    for way, options in ways.items():
        seen = Seen()
        for trace in traces:
            replay(trace, pacer_of(options, 0.0), seen)
        tell(way, seen)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how evenly streamed tokens come.")
    parser.add_argument("--ms", type=float, nargs="+", default=[40.0, 80.0])
    parser.add_argument("--answers", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    given = parser.parse_args()
    with LLM(config=replace(Config(), prefix_caching=False)) as llm:
        warm_up(llm)
        print(llm.summary())
        texts = [prompt.text for prompt in read_prompts("mt-bench")[: given.answers]]
        traces = [record(llm, text, given.tokens) for text in texts]
    compare(traces, given.ms)


if __name__ == "__main__":
    main()
