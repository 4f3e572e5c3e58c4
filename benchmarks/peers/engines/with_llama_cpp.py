"""llama.cpp as one of the engines: job {model: GGUF file, lookup, threads, rows, length}.

The loop is ours, over the plain interface of llama-cpp-python: one call of llama_decode per step for all rows, and the
largest logit by numpy. The high-level class copies logits and samples in Python, which would cost it more than this
does. lookup: tokens drafted by the binding's own LlamaPromptLookupDecoding, 0 for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import llama_cpp as lib
import numpy as np
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding
from protocol import Answers, serve

BATCH = 2048


class LlamaCpp:
    """A model with one context that holds `rows` sequences of up to `length` tokens."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        lib.llama_backend_init()
        self._model = lib.llama_model_load_from_file(str(job["model"]).encode(), lib.llama_model_default_params())
        if not self._model:
            raise ValueError(f"{job['model']} cannot be loaded")
        params = lib.llama_context_default_params()
        params.n_ctx = job["rows"] * job["length"]
        params.n_seq_max = job["rows"]
        params.n_batch = BATCH
        # One cache for all rows lets drafts of different lengths go in one pass (half the time with eight rows);
        # rows of one token each are a little faster with caches of their own. Each way gets what suits it.
        params.kv_unified = bool(job["lookup"])
        params.n_threads = params.n_threads_batch = job["threads"]
        self._context = lib.llama_init_from_model(self._model, params)
        if not self._context:
            raise ValueError(f"no context of {params.n_ctx} tokens can be made")
        self._memory = lib.llama_get_memory(self._context)
        self._num_words = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self._model))
        self._batch = lib.llama_batch_init(BATCH, 0, 1)
        self._drafter = LlamaPromptLookupDecoding(num_pred_tokens=job["lookup"]) if job["lookup"] else None

    def facts(self) -> dict[str, object]:
        """Return versions and settings that belong to a figure."""
        return {"llama_cpp": lib.__version__, "system": lib.llama_print_system_info().decode()}

    def answer(self, prompts: list[list[int]], count: int) -> Answers:
        """Answer all prompts together, greedily, with `count` tokens each."""
        answers = Answers(len(prompts), count)
        lib.llama_memory_clear(self._memory, False)  # what is there is forgotten, not overwritten
        for row, token in self._read(prompts).items():
            answers.add(row, [token])
        while rows := answers.unfinished():
            chains = {row: self._chain(prompts[row] + answers.tokens[row], answers.room(row)) for row in rows}
            starts = self._decode([(row, *self._placed(prompts[row], answers, row, chains[row])) for row in rows])
            for row, start in zip(rows, starts, strict=True):
                accepted = self._walk(start, chains[row][1:])
                answers.add(row, accepted)
                # The last token is not in the cache yet, what was refused has to leave it.
                kept = len(prompts[row]) + len(answers.tokens[row]) - 1
                lib.llama_memory_seq_rm(self._memory, row, kept, -1)
        return answers

    def _read(self, prompts: list[list[int]]) -> dict[int, int]:
        """Feed the prompts and return the first token of each row's answer."""
        first: dict[int, int] = {}
        for row, prompt in enumerate(prompts):
            for at in range(0, len(prompt), BATCH):
                [start] = self._decode([(row, prompt[at : at + BATCH], at, 1)])
            first[row] = self._best(start)
        return first

    def _chain(self, known: list[int], room: int) -> list[int]:
        """Return the last token and what is drafted behind it: no more than can be used."""
        if self._drafter is None or room < 2:
            return known[-1:]
        drafted = self._drafter(np.array(known, dtype=np.intc))
        return [known[-1], *map(int, drafted[: room - 1])]

    def _placed(self, prompt: list[int], answers: Answers, row: int, chain: list[int]) -> tuple[list[int], int, int]:
        return chain, len(prompt) + len(answers.tokens[row]) - 1, len(chain)

    def _decode(self, parts: list[tuple[int, list[int], int, int]]) -> list[int]:
        """Feed parts of (row, tokens, position, number of last ones scored); return each one's first scored index."""
        batch, size, starts = self._batch, 0, []
        for row, tokens, position, scored in parts:
            starts.append(size + len(tokens) - scored)
            for offset, token in enumerate(tokens):
                batch.token[size] = token
                batch.pos[size] = position + offset
                batch.n_seq_id[size] = 1
                batch.seq_id[size][0] = row
                batch.logits[size] = offset >= len(tokens) - scored
                size += 1
        batch.n_tokens = size
        if code := lib.llama_decode(self._context, batch):
            raise RuntimeError(f"llama_decode answered {code} for {size} tokens")
        return starts

    def _walk(self, start: int, drafted: list[int]) -> list[int]:
        """Return the drafted tokens that stand and the one behind them; the chain's scores begin at `start`."""
        accepted = [self._best(start)]
        for offset, token in enumerate(drafted, start=1):
            if accepted[-1] != token:
                break
            accepted.append(self._best(start + offset))
        return accepted

    def _best(self, index: int) -> int:
        logits = lib.llama_get_logits_ith(self._context, index)
        return int(np.ctypeslib.as_array(logits, shape=(self._num_words,)).argmax())


if __name__ == "__main__":
    serve(LlamaCpp)
