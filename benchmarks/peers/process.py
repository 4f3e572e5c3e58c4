"""The driver's side of the protocol: an engine in a process of its own, stopped while it is not its turn."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

REST = 0.05  # seconds after an answer, in which spinning threads of the engine go to sleep


class PeerFailed(Exception):
    """An engine could not be started, ended, or took too long; the text says why."""


class PeerRefused(Exception):
    """An engine answered with an error and goes on."""


class Peer:
    """A running engine. Its group of processes is stopped between turns, so that it takes no processor time then."""

    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str]) -> None:
        """Start a script of `engines`. log: file for what it prints. Raises PeerFailed if it cannot be started."""
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("wb") as stderr:
                self._process = subprocess.Popen(
                    [str(part) for part in command],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env=dict(environment),
                    process_group=0,  # in our session: a stopped engine gets SIGHUP if we are killed
                )
        except OSError as error:
            raise PeerFailed(f"{command[0]} cannot be started ({error.strerror})") from error
        self._rest = b""

    def load(self, job: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
        """Load weights and return the engine's facts."""
        facts: dict[str, Any] = self._ask({"do": "load", "job": job}, seconds)
        return facts

    def answer(self, prompts: Sequence[Sequence[int]], count: int, *, seconds: float) -> list[dict[str, Any]]:
        """Take a turn: answer prompts together with `count` tokens each, and rest. Seconds bound the wait."""
        self._signal(signal.SIGCONT)
        try:
            request = {"do": "answer", "prompts": [list(prompt) for prompt in prompts], "count": count}
            answers: list[dict[str, Any]] = self._ask(request, seconds)
            return answers
        finally:
            self.pause()

    def pause(self) -> None:
        """Let the engine's threads come to rest and stop it until its next turn."""
        time.sleep(REST)
        self._signal(signal.SIGSTOP)

    def close(self) -> None:
        """End the engine: it is asked to, and after ten seconds made to."""
        if self._process.poll() is None:
            self._signal(signal.SIGCONT)
            try:
                self._write({"do": "close"})
                self._process.wait(timeout=10)
            except (PeerFailed, subprocess.TimeoutExpired):
                self._signal(signal.SIGKILL)
                self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: Mapping[str, Any], seconds: float) -> Any:
        self._write(request)
        line = self._read_line(seconds)
        try:
            reply = json.loads(line)
        except ValueError:
            raise PeerFailed(f"answered {line[:80]!r}, which is no JSON") from None
        if "error" in reply:
            raise PeerRefused(reply["error"])
        return reply["ok"]

    def _write(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._ended() from error

    def _read_line(self, seconds: float) -> bytes:
        """Return the next line of the engine; raise PeerFailed if it ends or lets us wait longer than this."""
        stdout = self._process.stdout
        assert stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(deadline - time.monotonic(), 0.0)):
                    self._signal(signal.SIGKILL)
                    raise PeerFailed(f"no answer within {seconds:g} seconds")
                part = os.read(stdout.fileno(), 1 << 16)
                if not part:
                    raise self._ended()
                self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _ended(self) -> PeerFailed:
        code = self._process.wait()
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return PeerFailed(f"ended with {code}" + (f": {lines[-1].strip()}" if lines else ""))

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:  # that it has ended is reported by the next request
            os.killpg(self._process.pid, number)
