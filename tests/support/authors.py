"""Engines that say what a test lets them say, by prompt and parameters."""

from __future__ import annotations

from collections.abc import Callable

from paradraft.core.ports import Limits
from paradraft.core.records import FinishReason
from paradraft.core.sampling import SamplingParams
from paradraft.engine.results import GenerationResult
from support.byte_tokenizer import ByteTokenizer
from support.speakers import result_of

Says = Callable[[str, SamplingParams], "tuple[str, FinishReason] | str"]


class Author:
    """Says what a function of prompt and parameters returns, and remembers what it was asked."""

    def __init__(self, says: Says) -> None:
        self.tokenizer = ByteTokenizer()
        self.says = says
        self.asked: list[tuple[str, SamplingParams]] = []

    @property
    def limits(self) -> Limits:
        raise NotImplementedError

    def generate(self, prompts: list[list[int]], params: list[SamplingParams]) -> list[GenerationResult]:
        asked = [(bytes(prompt).decode(), each) for prompt, each in zip(prompts, params, strict=True)]
        self.asked += asked
        said = [self.says(*each) for each in asked]
        pairs = [each if isinstance(each, tuple) else (each, FinishReason.STOP) for each in said]
        return [result_of([1], [1], pieces=(text,), finish=finish) for text, finish in pairs]


def conversing(prompt: str, params: SamplingParams) -> tuple[str, FinishReason] | str:
    """Ask about a number, answer in two sentences of which the second is cut, and ask on."""
    if prompt.endswith("assistant: "):
        return "It is large. It is al", FinishReason.LENGTH
    return "And why so?" if "assistant" in prompt else f"Tell me of the number {params.seed}"
