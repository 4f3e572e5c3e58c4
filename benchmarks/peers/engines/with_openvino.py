"""OpenVINO GenAI as one of the engines: job {model: folder, precision, lookup, threads, rows, length}.

Its continuous batching pipeline serves one prompt and several; lookup: drafted tokens, 0 for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import openvino
import openvino_genai
from protocol import Answers, serve

NGRAM = 3  # longest match, the library's own example


class OpenVino:
    """A compiled model with a cache for `rows` answers."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = 1
        scheduler.max_num_seqs = max(job["rows"], 1)
        scheduler.enable_prefix_caching = False
        self._lookup = int(job["lookup"])
        properties: dict[str, Any] = {
            "INFERENCE_NUM_THREADS": job["threads"],
            "INFERENCE_PRECISION_HINT": job["precision"],
        }
        if self._lookup:
            properties["prompt_lookup"] = True
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(job["model"], scheduler, "CPU", properties)
        self._properties = properties
        self._count = 0

    def facts(self) -> dict[str, object]:
        """Return versions and settings that belong to a figure."""
        return {"openvino_genai": openvino_genai.__version__, "openvino": openvino.__version__, **self._properties}

    def answer(self, prompts: list[list[int]], count: int) -> Answers:
        """Answer all prompts together, greedily, with `count` tokens each."""
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = count
        config.ignore_eos = True
        config.do_sample = False
        if self._lookup:
            config.num_assistant_tokens = self._lookup
            config.max_ngram_size = NGRAM
        answers = Answers(len(prompts), count)
        handles = [self._add(prompt, config) for prompt in prompts]
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
            for row, handle in enumerate(handles):
                while handle.can_read():
                    for output in handle.read().values():
                        answers.add(row, output.generated_ids)
        return answers

    def _add(self, prompt: list[int], config: openvino_genai.GenerationConfig) -> openvino_genai.GenerationHandle:
        self._count += 1
        ids = openvino.Tensor(np.array([prompt], dtype=np.int64))
        return self._pipeline.add_request(self._count, ids, config)


if __name__ == "__main__":
    serve(OpenVino)
