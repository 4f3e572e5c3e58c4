"""`paradraft serve` as a process, and clients of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Semaphore

import httpx2 as httpx

COMMAND = [str(Path(sys.executable).parent / "paradraft")]
ASK = {"prompt": "abc", "max_tokens": 400, "temperature": 0, "ignore_eos": True, "stream": True}


class Process:
    """A server that runs, with what it said so far."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self.process = process
        self._errors = errors
        self.url = ""

    @property
    def said(self) -> str:
        return self._errors.read_text(encoding="utf-8")

    def until_said(self, pattern: str, seconds: float = 90.0) -> re.Match[str]:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := re.search(pattern, self.said):
                return found
            assert self.process.poll() is None, self.said
            time.sleep(0.02)
        raise AssertionError(self.said)


@contextmanager
def serving(model: Path, folder: Path, *options: str) -> Iterator[Process]:
    """Run the command until the block ends, and yield it once it serves."""
    log = folder / "stderr"
    command = [*COMMAND, "serve", str(model), "--port", "0", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(command, stderr=errors, stdout=subprocess.DEVNULL, text=True, env=environment)
        server = Process(process, log)
        try:
            server.url = server.until_said(r"Serving on (http://[^\s\"]+)")[1]
            yield server
        finally:
            process.kill()
            process.wait(10)


def stream(url: str, *, begun: Semaphore | None = None, **fields: object) -> tuple[int, str | None, str]:
    """Return the status of a stream, its last finish reason and its text; begun is released when it begins."""
    reason, text = None, ""
    with httpx.stream("POST", f"{url}/v1/completions", json={**ASK, **fields}, timeout=60) as response:
        if begun is not None:
            begun.release()
        for line in response.iter_lines():
            if line.startswith("data: {") and (chunk := json.loads(line[6:])).get("choices"):
                text += chunk["choices"][0]["text"]
                reason = chunk["choices"][0]["finish_reason"] or reason
    return response.status_code, reason, text
