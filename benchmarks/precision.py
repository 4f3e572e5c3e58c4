"""What number formats cost: how far the law of the next token strays from that of bf16, on the native core.

    python benchmarks/precision.py                                  the built-in model, eight MT-Bench prompts
    python benchmarks/precision.py --dtypes int8,Q8_0               beside the rounding of llama.cpp's Q8_0
    python benchmarks/precision.py --model DIR --dtypes int4 --prompts 80 --tokens 256

Every prompt is a first turn in the model's chat format, cut to --tokens, and each of its positions counts once.
Nothing here depends on time: the same figures come out on a busy machine.
"""

from __future__ import annotations

import argparse

import numpy as np
from rounded_q8_0 import log_laws as log_laws_of_q8_0

from paradraft.core.arrays import DoubleArray, IntArray, ints
from paradraft.hub.assets import ASSETS, bring
from paradraft.hub.prompts import read_prompts
from paradraft.models.checkpoint import Checkpoint, find_model, open_checkpoint
from paradraft.models.decoder_config import read_decoder_config
from paradraft.models.packed_cache import load_packed
from paradraft.models.tokenizer import load_tokenizer
from paradraft.native.executor import Executor
from paradraft.native.records import PassInput

REFERENCE = "bf16"
PEER = "Q8_0"  # not one of ours: the rounding of llama.cpp


def log_laws(checkpoint: Checkpoint, prompts: list[IntArray], dtype: str) -> list[DoubleArray]:
    """Return the log-probabilities behind every token of each prompt, [T, V]."""
    if dtype == PEER:
        return log_laws_of_q8_0(checkpoint, prompts)
    config = read_decoder_config(checkpoint.config)
    longest = max(len(prompt) for prompt in prompts)
    executor = Executor(load_packed(checkpoint, config, dtype=dtype).weights, num_slots=longest, num_threads=1)
    laws = []
    for prompt in prompts:
        places = ints(range(len(prompt)))
        given = PassInput(
            row_starts=ints([0, len(prompt)]),
            tokens=prompt,
            positions=places,
            slots=places,
            parents=ints(places - 1),
            context_starts=ints([0, 0]),
            context_slots=ints([]),
            scored=places,
        )
        logits = executor.run(given).logits.astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        laws.append(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))
    executor.close()
    return laws


def divergence(law: DoubleArray, other: DoubleArray) -> DoubleArray:
    """Return KL(law || other) in nats for each position."""
    result: DoubleArray = (np.exp(law) * (law - other)).sum(axis=1)
    return result


def read_turns(model: str, count: int, longest: int) -> list[IntArray]:
    bring("mt-bench") if "mt-bench" in ASSETS else None
    tokenizer, prompts = load_tokenizer(find_model(model).path), read_prompts("mt-bench")
    picked = prompts[:: max(1, len(prompts) // count)][:count]
    texts = [tokenizer.render_chat([{"role": "user", "content": prompt.text}]) for prompt in picked]
    return [ints(tokenizer.encode(text, add_special=False)[:longest]) for text in texts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dtypes", default="fp32,int8,int4")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    options = parser.parse_args()
    prompts = read_turns(options.model, options.prompts, options.tokens)
    checkpoint = open_checkpoint(find_model(options.model))
    reference = log_laws(checkpoint, prompts, REFERENCE)
    print(f"{len(prompts)} prompts, {sum(map(len, prompts))} tokens")
    print(f"{'dtype':<8}{'KL(dtype || bf16)':>20}{'KL(bf16 || dtype)':>20}{'same best token':>18}")
    for dtype in options.dtypes.split(","):
        pairs = list(zip(log_laws(checkpoint, prompts, dtype), reference, strict=True))
        there = np.concatenate([divergence(law, wide) for law, wide in pairs]).mean()
        back = np.concatenate([divergence(wide, law) for law, wide in pairs]).mean()
        same = np.concatenate([law.argmax(axis=1) == wide.argmax(axis=1) for law, wide in pairs]).mean()
        print(f"{dtype:<8}{there:>20.4f}{back:>20.4f}{same:>18.1%}")


if __name__ == "__main__":
    main()
