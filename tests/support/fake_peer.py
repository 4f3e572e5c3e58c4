"""An engine of `benchmarks/peers` without a model: it counts up from the prompt's last token, or misbehaves as told.

job {"way": ...}: counts, chatters (and prints), short (a token too few), alone (refuses several prompts), dies, hangs.
The folder `engines`, where the protocol is, has to be on PYTHONPATH.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from protocol import Answers, serve


class Fake:
    def __init__(self, job: Mapping[str, Any]) -> None:
        self._way = job["way"]
        if self._way == "unloadable":
            raise ValueError("these weights are not for me")

    def facts(self) -> dict[str, object]:
        return {"way": self._way}

    def answer(self, prompts: list[list[int]], count: int) -> Answers:
        if self._way == "chatters":
            os.write(1, b'{"ok": "not a reply"}\n')
        if self._way == "alone" and len(prompts) > 1:
            raise ValueError("one prompt at a time only")
        if self._way == "dies":
            os.write(2, b"out of luck\n")
            sys.exit(3)
        if self._way == "hangs":
            time.sleep(60)
        answers = Answers(len(prompts), count - (self._way == "short"))
        while rows := answers.unfinished():
            time.sleep(0.0005)
            for row in rows:
                known = prompts[row] + answers.tokens[row]
                answers.add(row, [known[-1] + 1])
        return answers


if __name__ == "__main__":
    serve(Fake)
