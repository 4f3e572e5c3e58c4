"""Engines that say what a script says: their law spells a given text behind whatever prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from paradraft.core.arrays import FloatArray
from paradraft.engine.engine import Engine
from support.byte_tokenizer import EOS, SPECIAL
from support.engines import build_engine
from support.grammars import byte_grammars
from support.serving import BYTES
from support.stub_target import Law

SURE = 30.0  # logits between what the script says and everything else


MARK = "[TOOL_CALLS]"  # in a script it stands for the control token


def scripted_law(prompts_end: str, say: Callable[[str], str]) -> Law:
    """Spell `say(prompt)`, then end. A prompt ends with the last occurrence of prompts_end; ids are bytes."""
    mark = prompts_end.encode()

    def law(prefix: tuple[int, ...]) -> FloatArray:
        text = bytes(token for token in prefix if token < 256)
        at = text.rfind(mark) + len(mark)
        script = [*_ids(say(text[:at].decode("utf-8", "replace"))), EOS]
        done = len(text) - at + prefix.count(SPECIAL)
        logits = np.zeros(BYTES, dtype=np.float32)
        logits[script[min(done, len(script) - 1)]] = SURE
        return logits

    return law


def _ids(text: str) -> list[int]:
    before, mark, behind = text.partition(MARK)
    return [*before.encode(), *([SPECIAL, *_ids(behind)] if mark else [])]


def scripted_engine(*texts: str | tuple[str, str], prompts_end: str = "assistant: ", **options: object) -> Engine:
    """Return an engine that says a text: the first whose cue the prompt holds, or the one that has no cue."""
    return build_engine(
        law=scripted_law(prompts_end, lambda prompt: _chosen(texts, prompt)),
        vocab_size=BYTES,
        eos_ids=(EOS,),
        num_pages=2048,
        grammars=byte_grammars(),
        **{"longest": 4096, "max_step_tokens": 1024, **options},
    )


def _chosen(texts: Sequence[str | tuple[str, str]], prompt: str) -> str:
    for each in texts:
        if isinstance(each, str):
            return each
        if each[0] in prompt:
            return each[1]
    raise AssertionError(f"nothing was written for {prompt!r}")
