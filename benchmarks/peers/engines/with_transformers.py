"""transformers as one of the engines: job {model, dtype, lookup, threads}; lookup: drafted tokens, 0 for none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers
from protocol import Answers, serve
from transformers import AutoModelForCausalLM, GenerationConfig


class Watch:
    """A streamer that notes when tokens come."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._has_prompt = False

    def put(self, value: torch.Tensor) -> None:
        """Take the prompt, and then the tokens of each step: one for each row, or several of one row."""
        tokens = value.flatten().tolist()
        if not self._has_prompt:
            self._has_prompt = True
        elif len(self._answers.tokens) == 1:
            self._answers.add(0, tokens)
        else:
            for row, token in enumerate(tokens):
                self._answers.add(row, [token])

    def end(self) -> None:
        """Do nothing; the last tokens have been taken."""


class Transformers:
    """Generates eagerly; several prompts are padded on the left to one batch."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        torch.set_num_threads(job["threads"])
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[job["dtype"]]
        self._model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=dtype, local_files_only=True)
        self._lookup = int(job["lookup"])

    def facts(self) -> dict[str, object]:
        """Return versions and settings that belong to a figure."""
        attention = getattr(self._model.config, "_attn_implementation", None)
        return {"transformers": transformers.__version__, "torch": torch.__version__, "attention": attention}

    @torch.inference_mode()
    def answer(self, prompts: list[list[int]], count: int) -> Answers:
        """Answer all prompts together, greedily, with `count` tokens each."""
        if self._lookup and len(prompts) > 1:
            raise ValueError("transformers drafts by prompt lookup for one prompt at a time only")
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        config = GenerationConfig(
            do_sample=False, max_new_tokens=count, eos_token_id=None, pad_token_id=0, use_cache=True,
            prompt_lookup_num_tokens=self._lookup or None,
        )  # fmt: skip
        # A model's own generation_config would stop it at its end-of-sequence ids.
        self._model.generation_config = config
        answers = Answers(len(prompts), count)
        self._model.generate(input_ids=ids, attention_mask=mask, generation_config=config, streamer=Watch(answers))
        return answers


if __name__ == "__main__":
    serve(Transformers)
