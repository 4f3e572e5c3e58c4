"""`paradraft demo`: the same prompts answered plainly and speculatively, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from paradraft.cli import options
from paradraft.cli.settings import build_config
from paradraft.core.sampling import SamplingParams

if TYPE_CHECKING:
    from rich.console import Console

    from paradraft.lab.demo import Totals, Twice

# Repeated prompts must not meet their own earlier answers, and both ways process the whole prompt.
_FAIR = {"suffix_shared_tokens": 0, "draft_learned_contexts": 0, "prefix_caching": False}

EXAMPLES = (
    "paradraft demo",
    "paradraft demo --drafter ngram --max-tokens 64",
)


def demo(
    model: options.Model = None,
    drafter: options.Drafter = None,
    gamma: options.Gamma = None,
    dtype: options.Dtype = "fp32",
    max_tokens: options.MaxTokens = 96,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
) -> None:
    """Answer a few prompts twice, plainly and speculatively: the same tokens, the second time faster.

    The built-in model is downloaded the first time; later runs need no network. Runs in fp32, where equal tokens are
    promised. Exits with 1 if an answer differs.
    """
    from paradraft.cli.console import out
    from paradraft.cli.opening import open_llm
    from paradraft.cli.progress import counting
    from paradraft.lab.demo import PROMPTS, answer_twice, totals_of

    chosen = build_config(config, settings, model=model, drafter=drafter, gamma=gamma, dtype=dtype, **_FAIR)
    console = out()
    with open_llm(chosen) as llm:
        console.print(llm.summary(), style="dim", markup=False)
        asked = [(prompt, llm.encode_chat([{"role": "user", "content": prompt.text}])) for prompt in PROMPTS]
        with counting("Answering") as progress:
            answers = answer_twice(
                llm, asked, SamplingParams(temperature=0.0, max_tokens=max_tokens), progress=progress
            )
    for answer in answers:
        _show(console, answer)
    totals = totals_of(answers)
    _sum_up(console, totals)
    if not totals.is_identical:
        raise typer.Exit(1)


def _show(console: Console, answer: Twice) -> None:
    from paradraft.cli.colours import paint

    stats = answer.speculative.stats
    console.print()
    console.print(f"--- {answer.prompt.kind} ---", style="bold")
    console.print(answer.prompt.text, style="dim", markup=False)
    console.print()
    console.print(paint(answer.speculative.pieces, answer.speculative.origins))
    if not answer.is_identical:
        console.print("DIFFERS. Decoded plainly:", style="bold red")
        console.print(answer.plain.text, markup=False)
    console.print(
        f"{len(answer.speculative.token_ids)} tokens, the better of two runs: plain {answer.plain_seconds:.2f} s, "
        f"speculative {answer.speculative_seconds:.2f} s; {stats.accepted} of {stats.drafted} draft tokens accepted",
        style="dim",
    )


def _sum_up(console: Console, totals: Totals) -> None:
    from paradraft.cli.colours import legend

    console.print()
    console.print(legend())
    console.print(
        "Most of these prompts ask for answers that repeat much of the prompt, where drafts that are looked up are "
        "often right. `paradraft bench --prompts mt-bench` measures mixed questions."
    )
    console.print()
    console.print(f"plain:       {totals.plain_tokens_per_second:8.1f} tokens/s")
    console.print(f"speculative: {totals.speculative_tokens_per_second:8.1f} tokens/s")
    console.print(f"speed-up:    {totals.speed_up:8.2f}x")
    console.print(f"tau:         {totals.tau:8.2f} tokens per pass")
    console.print(f"identical: {'yes' if totals.is_identical else 'NO'}")
