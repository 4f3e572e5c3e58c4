"""Paradraft as one of the engines: job {model, dtype, drafter, threads, rows}."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any

from protocol import Answers, serve

from paradraft import LLM, SamplingParams
from paradraft.core.events import TokenEvent

# A repeat must not find its own earlier answer.
FAIR = {"suffix_shared_tokens": 0, "prefix_caching": False, "draft_learned_contexts": 0}


class Paradraft:
    """The product's own engine."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        options = {"drafter": job["drafter"], "threads": job["threads"], "max_rows": job["rows"]}
        self._llm = LLM(model=job["model"], dtype=job["dtype"], **options, **FAIR)

    def facts(self) -> dict[str, object]:
        """Return versions and settings that belong to a figure."""
        return {"runner": self._llm.limits.runner, "dtype": self._llm.limits.dtype, "summary": self._llm.summary()}

    def answer(self, prompts: list[list[int]], count: int) -> Answers:
        """Answer all prompts together, greedily, with `count` tokens each."""
        params = SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True)
        events: list[tuple[float, TokenEvent]] = []
        answers = Answers(len(prompts), count)
        started = perf_counter()
        results = self._llm.generate(prompts, params, on_event=lambda event: events.append((perf_counter(), event)))
        row_of = {result.request_id: row for row, result in enumerate(results)}
        for at, event in events:
            row = row_of[event.request_id]
            answers.tokens[row] += event.token_ids
            answers.seconds[row] += [at - started] * len(event.token_ids)
        return answers


if __name__ == "__main__":
    serve(Paradraft)
