"""Loads a running server the way a bad day does, and says whether it kept its promises.

    paradraft serve &
    python benchmarks/serving_load.py http://127.0.0.1:8000 --clients 64 --seconds 600 --pid $! --cache-mb 377

Clients ask for answers of mixed lengths; one in five leaves before its answer is whole, one in twenty asks for what
has to be refused. Beforehand each prompt is answered alone, greedily, and under load it has to be answered in the same
words. Promises: no status of 500 or more but a 503 with Retry-After, every stream ends with a finish reason, answers
under load are the answers alone (where the server says it is exact), nothing is left running, and with --pid the
server's memory stays flat but for its cache. Exit status 1 where one is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx2 as httpx

LEAVING, ABUSING = 0.20, 0.05
LENGTHS = (1, 4, 16, 48, 128, 256)
GROWTH = 1.10  # of memory from the first sample on, beside the cache, which fills as it is used
WORDS = ("river", "stone", "lamp", "winter", "bread", "letter", "clock", "garden", "music", "paper", "salt", "field")
ABUSES = (
    {"n": 10**9},
    {"prompt": []},
    {"prompt": [2**31 - 1]},
    {"temperature": -1},
    {"max_tokens": -5},
    {"unknown_field": 1},
    {"logit_bias": {"-1": 5}},
    {"stop": ["x"] * 1000},
    {"prompt": "x" * 3_000_000},
    {"model": "../../etc/passwd"},
)


@dataclass
class Outcome:
    """What was seen, and what should not have been."""

    statuses: Counter[str] = field(default_factory=Counter)
    finishes: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    compared: int = 0
    left: int = 0
    memory: list[tuple[float, int]] = field(default_factory=list)  # seconds and bytes

    def check(self, holds: bool, promise: str) -> None:
        """Note a promise that does not hold."""
        if not holds:
            self.broken.append(promise)


@dataclass(frozen=True)
class Question:
    """What is asked for."""

    prompt: str
    max_tokens: int

    @property
    def body(self) -> dict[str, object]:
        """Return the request; greedy, so that there is one right answer."""
        return {"prompt": self.prompt, "max_tokens": self.max_tokens, "temperature": 0}


class Load:
    """One run against one server."""

    def __init__(self, client: httpx.AsyncClient, questions: list[Question], *, compares: bool, seed: int) -> None:
        self.client = client
        self.questions = questions
        self.compares = compares
        self.random = random.Random(seed)
        self.alone: dict[Question, str] = {}
        self.outcome = Outcome()

    async def ask_alone(self) -> None:
        """Answer each question while nothing else runs."""
        for question in self.questions:
            response = await self.client.post("/v1/completions", json=question.body)
            response.raise_for_status()
            self.alone[question] = response.json()["choices"][0]["text"]

    async def be_a_client(self, until: float) -> None:
        """Ask one thing after another."""
        while time.monotonic() < until:
            lot = self.random.random()
            question = self.random.choice(self.questions)
            try:
                if lot < ABUSING:
                    await self.abuse()
                elif lot < ABUSING + LEAVING:
                    await self.leave(question)
                elif lot < 0.6:
                    await self.stream(question)
                else:
                    await self.ask(question)
            except httpx.TransportError as error:
                self.outcome.check(False, f"the connection broke: {type(error).__name__}: {error}")

    async def ask(self, question: Question) -> None:
        """Wait for a whole answer."""
        response = await self.client.post("/v1/completions", json=question.body)
        if await self.note(response):
            choice = response.json()["choices"][0]
            self.end(question, choice["finish_reason"], choice["text"])

    async def stream(self, question: Question) -> None:
        """Read a stream to its end."""
        text, reason, is_done = "", None, False
        async with self.client.stream("POST", "/v1/completions", json={**question.body, "stream": True}) as response:
            if not await self.note(response):
                return
            async for line in response.aiter_lines():
                is_done = is_done or line == "data: [DONE]"
                if line.startswith("data: {"):
                    for choice in json.loads(line[6:]).get("choices", []):
                        text += choice["text"]
                        reason = choice["finish_reason"] or reason
        self.outcome.check(is_done, "a stream ended without [DONE]")
        self.end(question, reason, text)

    async def leave(self, question: Question) -> None:
        """Begin a stream, read a little of it or nothing, and go."""
        pieces = self.random.randrange(4)
        async with self.client.stream("POST", "/v1/completions", json={**question.body, "stream": True}) as response:
            if await self.note(response) and pieces:
                async for _ in response.aiter_lines():
                    pieces -= 1
                    if not pieces:
                        break
        self.outcome.left += 1

    async def abuse(self) -> None:
        """Ask for what has to be refused."""
        response = await self.client.post("/v1/completions", json={"prompt": "x", **self.random.choice(ABUSES)})
        await self.note(response)
        self.outcome.check(400 <= response.status_code < 500 or response.status_code == 503, "abuse was not refused")

    async def note(self, response: httpx.Response) -> bool:
        """Count a status, wait where the server asks for it, and return whether there is an answer."""
        status = response.status_code
        self.outcome.statuses[str(status)] += 1
        self.outcome.check(status < 500 or status == 503, f"status {status}")
        if status in (429, 503):
            wait = response.headers.get("retry-after")
            self.outcome.check(wait is not None, f"{status} without Retry-After")
            await asyncio.sleep(min(float(wait or 1), 1.0) * (0.5 + self.random.random()))
        return status == 200

    def end(self, question: Question, reason: str | None, text: str) -> None:
        """Check how an answer ended, and that it says what it says alone."""
        self.outcome.finishes[str(reason)] += 1
        self.outcome.check(reason in ("stop", "length"), f"an answer ended with {reason}")
        if self.compares and reason in ("stop", "length"):
            self.outcome.compared += 1
            self.outcome.check(text == self.alone[question], f"another answer than alone to {question.prompt[:40]!r}")

    async def watch(self, until: float, pid: int | None) -> None:
        """Note the server's memory each half second, and that it stays alive."""
        begun = time.monotonic()
        while time.monotonic() < until:
            if pid is not None:
                self.outcome.memory.append((time.monotonic() - begun, resident_bytes(pid)))
            live = await self.client.get("/health/live")
            self.outcome.check(live.status_code == 200, "the server was not alive")
            await asyncio.sleep(0.5)


def resident_bytes(pid: int) -> int:
    """Return the memory that a process holds; Linux only."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def questions(count: int, seed: int) -> list[Question]:
    chosen = random.Random(seed)
    return [
        Question(" ".join(chosen.choices(WORDS, k=chosen.choice((3, 12, 60)))).capitalize(), chosen.choice(LENGTHS))
        for _ in range(count)
    ]


async def run(arguments: argparse.Namespace) -> Outcome:
    headers = {"Authorization": f"Bearer {arguments.key}"} if arguments.key else {}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=arguments.url, headers=headers, timeout=120, limits=limits) as client:
        served = (await client.get("/v1/models")).json()["data"][0]["paradraft"]
        load = Load(
            client,
            questions(arguments.questions, arguments.seed),
            compares=served["is_exact"] and not arguments.no_compare,
            seed=arguments.seed,
        )
        await load.ask_alone()
        until = time.monotonic() + arguments.seconds
        clients = [load.be_a_client(until) for _ in range(arguments.clients)]
        await asyncio.gather(load.watch(until, arguments.pid), *clients)
        await settle(client, load.outcome)
    check_memory(load.outcome, int(arguments.cache_mb * 1e6))
    return load.outcome


async def settle(client: httpx.AsyncClient, outcome: Outcome) -> None:
    """Check that nothing is left: the server is ready, answers, and its metrics, where it has them, are at rest."""
    await asyncio.sleep(1.0)
    outcome.check((await client.get("/health/ready")).status_code == 200, "the server was not ready afterwards")
    answer = await client.post("/v1/completions", json={"prompt": "x", "max_tokens": 1})
    outcome.check(answer.status_code == 200, "the server did not answer afterwards")
    metrics = await client.get("/metrics")
    for line in metrics.text.splitlines() if metrics.status_code == 200 else ():
        name, _, value = line.rpartition(" ")
        if "requests_running" in name or "requests_waiting" in name:
            outcome.check(line.startswith("#") or float(value) == 0, f"left behind: {line}")


def check_memory(outcome: Outcome, cache_bytes: int) -> None:
    """Check that memory is what it was at first, and the cache."""
    if outcome.memory:
        first, most = outcome.memory[0][1], max(size for _, size in outcome.memory)
        grown = f"memory grew from {first / 1e6:.0f} to {most / 1e6:.0f} MB"
        outcome.check(most <= first * GROWTH + cache_bytes, grown)


def tell(outcome: Outcome) -> None:
    print("statuses:", dict(sorted(outcome.statuses.items())))
    print("finish reasons:", dict(outcome.finishes), "left early:", outcome.left)
    print("answers compared with answers alone:", outcome.compared)
    if outcome.memory:
        sizes = [size for _, size in outcome.memory]
        tenths = [sizes[len(sizes) * at // 10] for at in range(10)] + [sizes[-1]]
        print("memory in MB, from tenth to tenth of the time:", *(f"{size / 1e6:.0f}" for size in tenths))
    for promise, times in Counter(outcome.broken).most_common(20):
        print(f"BROKEN {times} times: {promise}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--key", help="an API key")
    parser.add_argument("--pid", type=int, help="the server's process, to watch its memory")
    parser.add_argument("--cache-mb", type=float, default=0.0, help="the full cache, as the server says at its start")
    parser.add_argument("--no-compare", action="store_true", help="do not compare with answers alone")
    outcome = asyncio.run(run(parser.parse_args()))
    tell(outcome)
    return 1 if outcome.broken else 0


if __name__ == "__main__":
    sys.exit(main())
