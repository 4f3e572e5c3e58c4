"""The peer that speed and answers are measured against: the same weights in transformers, decoded eagerly.

Only this file of the lab needs torch: it is what the product is compared with, not a part of it.
"""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedModel

from paradraft.core.errors import ConfigError
from paradraft.core.events import GenerationStats
from paradraft.core.records import FinishReason, Origin
from paradraft.core.sampling import SamplingParams
from paradraft.engine.results import Completion, GenerationResult
from paradraft.models.foreign.quiet import quietly

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class TransformersPeer:
    """Generates with `transformers` alone. Greedy only; several prompts are padded on the left to one batch."""

    def __init__(self, folder: Path, *, dtype: str, device: str = "cpu") -> None:
        """Load a folder of config and safetensors weights; remote code stays off. Raises ConfigError for int8, int4."""
        if dtype not in _DTYPES:
            raise ConfigError(
                f"transformers does not compute in {dtype} here.", remedy="Compare with it in bf16 or fp32."
            )
        with quietly():
            model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
                folder, dtype=_DTYPES[dtype], local_files_only=True, trust_remote_code=False
            )
        self._model = torch.nn.Module.to(model, device)
        self._device = device

    @torch.inference_mode()
    def generate(self, prompts: list[list[int]], params: list[SamplingParams]) -> list[GenerationResult]:
        """Answer all prompts in one batch with the first one's max_tokens; an end of sequence does not stop it."""
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts], device=self._device)
        mask = torch.tensor(
            [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=self._device
        )
        config = GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False, max_new_tokens=params[0].max_tokens, eos_token_id=None, pad_token_id=0, use_cache=True
        )
        # A model's own generation_config would stop it at its end-of-sequence ids.
        self._model.generation_config = config
        output: torch.Tensor = self._model.generate(  # type: ignore[operator]
            input_ids=ids, attention_mask=mask, generation_config=config
        )
        answers = output[:, longest:].tolist()
        return [_result(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True)]


def _result(prompt: list[int], answer: list[int]) -> GenerationResult:
    choice = Completion(
        index=0,
        text="",
        token_ids=tuple(answer),
        origins=(Origin.PLAIN,) * len(answer),
        pieces=(),
        logprobs=None,
        finish_reason=FinishReason.LENGTH,
        stop_reason=None,
        error=None,
        seed=0,
        stats=GenerationStats(),
    )
    return GenerationResult(
        request_id="peer", prompt=None, prompt_token_ids=tuple(prompt), prompt_logprobs=None, choices=(choice,)
    )
