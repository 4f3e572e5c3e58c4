"""Counts how varied the turns are that a target writes itself: `python benchmarks/own_turns.py --count 150`.

Prints a line for turns that the target begins itself, and one for those that begin with drawn openings.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from paradraft import LLM
from paradraft.app.capture import capture_config
from paradraft.app.config import Config
from paradraft.train.authoring import write_conversations
from paradraft.train.diversity import measure_diversity
from paradraft.train.plan import CaptureOptions
from paradraft.train.prompts import Conversation


def show(found: dict[str, list[Conversation]], count: int) -> None:
    """Print a line for each; words are counted among as many as all of them have."""
    firsts = {name: [texts[0] for texts in said] for name, said in found.items()}
    most = min(measure_diversity(texts).num_words for texts in firsts.values())
    for name, texts in firsts.items():
        counted = measure_diversity(texts, most_words=most)
        print(
            f"{name}: {len(texts)} of {count} turns fit, {sum(len(each) > 1 for each in found[name])} have a second; "
            f"first three words distinct {counted.distinct_openings:.0%}, "
            f"near duplicates {counted.near_duplicates:.0%}, "
            f"in {most} words {counted.distinct_words} distinct ones, {counted.entropy:.2f} bits a word"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--out", type=Path, help="keep the turns here, as JSON")
    given = parser.parse_args()
    base = Config(model=given.model, dtype=given.dtype, threads=given.threads)
    usual = CaptureOptions(own_turns=given.count, max_prompt_len=384)
    found: dict[str, list[Conversation]] = {}
    with LLM(config=capture_config(base, rows=given.rows, longest=640)) as llm:
        for name, share in (("plain", 0.0), ("drawn openings", usual.openings)):
            options = CaptureOptions(
                own_turns=given.count, max_prompt_len=384, openings=share, follow_ups=usual.follow_ups if share else 0.0
            )
            found[name] = write_conversations(llm, options, first=0, count=given.count)
    show(found, given.count)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
