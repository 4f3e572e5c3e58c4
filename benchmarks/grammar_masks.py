"""What grammars cost the host: masks, steps back after wrong drafts, pruning and compilation, for the built-in model.

    python benchmarks/grammar_masks.py

Microseconds of the thread's processor time over the tokens of a fitting answer, median and largest. `mask`: one node's
mask, one token behind the last; `back`: the same after four tokens of a wrong draft; `prune`: a look at a path of eight
drafted tokens; `law`: a greedy choice from random logits under the mask. `compile`: a new grammar up to its first mask,
without its trial in a process of its own.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from paradraft.core.arrays import IntArray, ints
from paradraft.core.grammar import Grammar
from paradraft.core.records import RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.models.checkpoint import find_model
from paradraft.models.tokenizer import load_tokenizer
from paradraft.structured.compiler import GrammarCompiler
from paradraft.structured.matcher import RowMatcher
from paradraft.structured.rows import RowGrammars
from paradraft.verify.law import law_of

REPEATS = 5
GREEDY = RowSampling(params=SamplingParams(temperature=0.0), seed=0, choice=0, prompt_len=0, stop_ids=())
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
JSON = '{"name": "Ada of the long middle names", "age": 36, "tags": ["mathematics", "engines"]}'
CASES = {
    "JSON object": (Grammar.json_object(), JSON),
    "JSON schema": (Grammar.json_schema(PERSON), JSON),
    "regex: date": (Grammar.regex(r"\d{4}-\d{2}-\d{2}"), "1815-12-10"),
    "regex: words": (Grammar.regex("[a-z ]+(, [a-z ]+)*"), "some words, and a few more of them, and the last"),
    "Lark: sums": (Grammar.of_text('start: e\ne: e "+" e | "(" e ")" | /[0-9]+/'), "(12+3)+(4+56)+789+(0+1)"),
    "GBNF: list": (Grammar.of_text('root ::= ("- " [^\\n]+ "\\n")+'), "- a first line\n- and another one\n- the end\n"),
}


def main() -> None:
    tokenizer = load_tokenizer(find_model("smollm2-135m").path)
    compiler = GrammarCompiler(tokenizer, vocab_size=tokenizer.vocab_size, is_affordable=lambda _: True)
    begun = time.thread_time()
    RowGrammars(compiler).compile(Grammar.regex("vocabulary"))
    print(f"vocabulary of {tokenizer.vocab_size} ids, once: {(time.thread_time() - begun) * 1e3:.0f} ms")
    print(f"{'microseconds':<14}{'mask':>14}{'back':>14}{'prune':>14}{'law':>14}{'compile':>10}")
    for name, (grammar, text) in CASES.items():
        compile_time = _seconds(lambda grammar=grammar: RowGrammars(compiler).compile(grammar))
        tokens = ints(tokenizer.encode(text, add_special=False))
        rows: list[list[float]] = [[], [], [], []]
        for _ in range(REPEATS):
            matcher = RowGrammars(compiler).matcher(0, grammar)
            for times, found in zip(rows, _walk(matcher, tokens), strict=True):
                times.extend(found)
        print(f"{name:<14}{''.join(f'{_shown(times):>14}' for times in rows)}{compile_time * 1e6:>10.0f}")


def _walk(matcher: RowMatcher, tokens: IntArray) -> tuple[list[float], ...]:
    masks, backs, prunes, laws = [], [], [], []
    logits = np.random.default_rng(0).standard_normal(matcher.allowed(tokens[:0]).shape[0]).astype(np.float32)
    for at in range(len(tokens)):
        masks.append(_seconds(lambda at=at: matcher.allowed(tokens[:at])))
        matcher.allowed(tokens[: at + 4])
        backs.append(_seconds(lambda at=at: matcher.allowed(tokens[:at])))
        path = tokens[at : at + 8].tolist()
        prunes.append(_seconds(lambda at=at, path=path: matcher.count_allowed(tokens[:at], path)))
        allowed = matcher.allowed(tokens[:at])
        laws.append(_seconds(lambda at=at, allowed=allowed: law_of(logits, GREEDY, tokens[:at], allowed)))
    return masks, backs, prunes, laws


def _seconds(action: Callable[[], object]) -> float:
    begun = time.thread_time()
    action()
    return time.thread_time() - begun


def _shown(times: list[float]) -> str:
    return f"{statistics.median(times) * 1e6:.0f} / {np.max(times) * 1e6:.0f}"


if __name__ == "__main__":
    main()
