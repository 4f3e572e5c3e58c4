"""vLLM's CPU build as one of the engines: job {model, dtype, lookup, threads, rows, length}; lookup: drafted tokens."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

# In this process, on the threads given, and with nothing from outside.
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import vllm
from protocol import Answers, serve
from vllm import LLM, SamplingParams

NGRAM = 4  # longest match, as in the documentation


class Vllm:
    """The offline engine, stepped by hand so that tokens can be timed."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        options: dict[str, Any] = {}
        if job["lookup"]:
            options["speculative_config"] = {
                "method": "ngram", "num_speculative_tokens": job["lookup"], "prompt_lookup_max": NGRAM,
            }  # fmt: skip
        dtype = {"fp32": "float32", "bf16": "bfloat16"}[job["dtype"]]
        self._engine = LLM(
            model=job["model"], dtype=dtype, max_model_len=job["length"], max_num_seqs=job["rows"],
            enable_prefix_caching=False, seed=0, **options,
        ).llm_engine  # fmt: skip
        self._count = 0

    def facts(self) -> dict[str, object]:
        """Return versions and settings that belong to a figure."""
        return {"vllm": vllm.__version__}

    def answer(self, prompts: list[list[int]], count: int) -> Answers:
        """Answer all prompts together, greedily, with `count` tokens each."""
        params = SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True, detokenize=False)
        answers, row_of = Answers(len(prompts), count), {}
        for row, prompt in enumerate(prompts):
            self._count += 1
            row_of[str(self._count)] = row
            self._engine.add_request(str(self._count), {"prompt_token_ids": prompt}, params)
        while self._engine.has_unfinished_requests():
            for output in self._engine.step():
                row = row_of[output.request_id]
                answers.add(row, output.outputs[0].token_ids[len(answers.tokens[row]) :])
        return answers


if __name__ == "__main__":
    serve(Vllm)
