"""What serving costs: tokens a second over HTTP beside those of the bare engine, in turns on one engine in one process.

    python benchmarks/serving_overhead.py                         1 and 8 clients, 5 repeats
    python benchmarks/serving_overhead.py --set drafter=none      the same without drafts

Clients are a process of their own, so that reading takes no time from the server's threads beyond that of the cores.
Every repeat asks the same prompts of the engine and then of the server, or the other way round in every second one.
Prefixes are not cached and nothing is learned from answers, so that all repeats do the same work. Beside the clock,
which depends on what else the machine does, there is the processor time of the two threads that serve: the engine's,
where hand-overs count, and the event loop's, where requests are read and frames are written.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import uvicorn
import uvloop

from paradraft.app.config import Config
from paradraft.app.llm import LLM
from paradraft.app.serving import compose, open_service, warm_up
from paradraft.cli.settings import build_config
from paradraft.core.sampling import SamplingParams
from paradraft.hub.prompts import read_prompts
from paradraft.server.guards.keys import Keys
from paradraft.server.options import ServerOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One pass over the prompts."""

    tokens: int
    seconds: float
    engine_cpu: float  # seconds of the thread that steps
    loop_cpu: float  # seconds of the event loop's
    steps: int
    first_token: float | None = None  # median seconds to the first frame with text

    @property
    def rate(self) -> float:
        """Return tokens per second."""
        return self.tokens / self.seconds


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what serving costs.")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=96, help="of each answer")
    parser.add_argument("--answers", type=int, default=8, help="of each turn, at least as many as there are clients")
    parser.add_argument("--set", dest="settings", action="append", metavar="KEY=VALUE")
    parser.add_argument("--switch-ms", type=float, default=5.0, help="how long a thread may keep the interpreter")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--client", metavar="HOST:PORT", help=argparse.SUPPRESS)
    return parser.parse_args()


# The client: a process of its own that is given prompts on standard input and prints what it saw.


async def ask(address: str, body: bytes) -> tuple[float, int]:
    """Stream one answer; return the seconds to its first chunk and its number of tokens."""
    host, _, port = address.rpartition(":")
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    first, tail = None, b""
    while piece := await reader.read(65536):
        tail += piece
        if first is None and b"data: " in tail:
            first = time.perf_counter() - begun
        tail = tail[-4096:]
    writer.close()
    assert first is not None, tail
    assert b"[DONE]" in tail, tail
    # The last chunk but the end mark tells the usage.
    last = tail[tail.rindex(b"data: {") + len(b"data: ") :].partition(b"\n")[0]
    return first, json.loads(last)["usage"]["completion_tokens"]


async def ask_all(address: str, given: dict[str, object]) -> dict[str, object]:
    """Ask all prompts, so many at a time."""
    gate = asyncio.Semaphore(int(str(given["clients"])))

    async def one(ids: list[int]) -> tuple[float, int]:
        body = {"prompt": ids, "max_tokens": given["tokens"], "temperature": 0, "ignore_eos": True}
        streaming = {"stream": True, "stream_options": {"include_usage": True}}
        async with gate:
            return await ask(address, json.dumps({**body, **streaming}).encode())

    begun = time.perf_counter()
    found = await asyncio.gather(*(one(ids) for ids in given["prompts"]))  # type: ignore[attr-defined]
    return {
        "seconds": time.perf_counter() - begun,
        "tokens": sum(count for _, count in found),
        "first": statistics.median(first for first, _ in found),
    }


def run_client(address: str) -> None:
    for line in sys.stdin:
        print(json.dumps(asyncio.run(ask_all(address, json.loads(line)))), flush=True)


# The process with the engine.


class Clients:
    """The client process."""

    def __init__(self, address: str) -> None:
        command = [sys.executable, __file__, "--client", address]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, prompts: Sequence[Sequence[int]], clients: int, tokens: int) -> dict[str, float]:
        """Let the prompts be asked and return what was measured."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"prompts": prompts, "clients": clients, "tokens": tokens}) + "\n")
        self._process.stdin.flush()
        found: dict[str, float] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def cpu_of(thread: threading.Thread) -> float:
    assert thread.ident is not None
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


def thread_named(name: str) -> threading.Thread:
    return next(thread for thread in threading.enumerate() if thread.name == name)


@contextmanager
def serving(llm: LLM):
    """Serve the engine on a thread and yield its address."""
    app = compose(open_service(llm), ServerOptions(), Keys([])).app
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, ws="none", loop="none"))
    thread = threading.Thread(target=lambda: uvloop.run(server.serve()), name="loop", daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


def bare(llm: LLM, prompts: Sequence[Sequence[int]], clients: int, tokens: int) -> Turn:
    """Ask the engine itself: at most so many answers at a time, each begun as soon as another ends."""
    params = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True)
    steps, begun, cpu = llm.engine.totals.steps, time.perf_counter(), time.thread_time()
    left = iter(prompts)
    running = [llm.stream(list(ids), params) for ids in islice(left, clients)]
    count = 0
    while running:
        for stream in list(running):
            event = next(stream, None)
            if event is not None:
                count += len(event.token_ids)
                continue
            running.remove(stream)
            running += [llm.stream(list(ids), params) for ids in islice(left, 1)]
    seconds, own = time.perf_counter() - begun, time.thread_time() - cpu
    return Turn(tokens=count, seconds=seconds, engine_cpu=own, loop_cpu=0.0, steps=llm.engine.totals.steps - steps)


def over_http(llm: LLM, served: Clients, prompts: Sequence[Sequence[int]], clients: int, tokens: int) -> Turn:
    """Ask the server in front of it."""
    engine, loop = thread_named("paradraft-engine"), thread_named("loop")
    steps, engine_cpu, loop_cpu = llm.engine.totals.steps, cpu_of(engine), cpu_of(loop)
    told = served.ask(prompts, clients, tokens)
    return Turn(
        tokens=int(told["tokens"]),
        seconds=told["seconds"],
        engine_cpu=cpu_of(engine) - engine_cpu,
        loop_cpu=cpu_of(loop) - loop_cpu,
        steps=llm.engine.totals.steps - steps,
        first_token=told["first"],
    )


def config_of(settings: Sequence[str] | None) -> Config:
    still = ["prefix_caching=false", "suffix_shared_tokens=0", "draft_learned_contexts=0"]
    return build_config(None, [*still, *(settings or ())])


def spread(values: Sequence[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def tell(clients: int, turns: dict[str, list[Turn]]) -> None:
    print(f"{clients} at a time:")
    for way, found in turns.items():
        steps = [1e6 / turn.steps for turn in found]
        engine = spread([turn.engine_cpu * step for turn, step in zip(found, steps, strict=True)], ".0f")
        loop = spread([turn.loop_cpu * step for turn, step in zip(found, steps, strict=True)], ".0f")
        rate = spread([turn.rate for turn in found], ".1f")
        print(f"  {way:6} {rate} tokens/s; us of processor time a step: engine thread {engine}, loop {loop}")
    pairs = [here.rate / there.rate for here, there in zip(turns["served"], turns["bare"], strict=True)]
    firsts = [1000 * turn.first_token for turn in turns["served"] if turn.first_token is not None]
    print(f"  served / bare {spread(pairs, '.3f')}; median ms to the first token {spread(firsts, '.0f')}")


def main() -> None:
    given = parse()
    if given.client:
        run_client(given.client)
        return
    sys.setswitchinterval(given.switch_ms / 1000)
    found: dict[int, dict[str, list[Turn]]] = {}
    llm = LLM(config=config_of(given.settings))
    warm_up(llm)
    print(llm.summary())
    texts = [prompt.turns[0] for prompt in read_prompts("mt-bench")[: given.answers]]
    prompts = [llm.encode_chat([{"role": "user", "content": text}]) for text in texts]
    with serving(llm) as address:
        served = Clients(address)
        ways: dict[str, Callable[[int], Turn]] = {
            "bare": lambda clients: bare(llm, prompts, clients, given.tokens),
            "served": lambda clients: over_http(llm, served, prompts, clients, given.tokens),
        }
        for clients in given.concurrency:
            found[clients] = {way: [] for way in ways}
            for turn in range(-1, given.repeats):  # the first one warms up
                for way in list(ways)[:: -1 if turn % 2 else 1]:
                    measured = ways[way](clients)
                    if turn >= 0:
                        found[clients][way].append(measured)
            tell(clients, found[clients])
        served.close()
    if given.json is not None:
        plain = {
            clients: {way: [asdict(turn) for turn in turns] for way, turns in ways.items()}
            for clients, ways in found.items()
        }
        given.json.write_text(json.dumps(plain, indent=1))


if __name__ == "__main__":
    main()
