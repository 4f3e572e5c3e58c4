"""`paradraft compare`: what a target and a drafter model would say at each place of a text."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from paradraft.cli import options
from paradraft.cli.settings import build_config
from paradraft.core.errors import ConfigError

if TYPE_CHECKING:
    from paradraft.app.llm import LLM
    from paradraft.lab.compare import Comparison, View
    from paradraft.lab.ranked import Guess

EXAMPLES = (
    'paradraft compare "Name three colours." --target big-model --drafter small-model',
    'paradraft compare "def add(a, b):" --raw --max-tokens 8 --json',
)


def compare(
    prompt: Annotated[str, typer.Argument(help="What to ask.")],
    target: Annotated[str, typer.Option(help="The model that is to be made faster.")] = "smollm2-135m",
    drafter: Annotated[str, typer.Option("--drafter", "-d", help="A model that might draft for it.")] = "smollm2-135m",
    dtype: options.Dtype = None,
    max_tokens: options.MaxTokens = 32,
    raw: Annotated[bool, typer.Option("--raw", help="Take the prompt as it stands, without chat template.")] = False,
    as_json: options.AsJson = False,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
) -> None:
    """Show the five best next tokens of both models at each place of a prompt and of the target's greedy answer.

    With the Jaccard overlap of the two lists, p and q (target's and drafter's probability of the drafter's first
    choice), their ratio, and the thresholds a drafter should meet: at most 0.3 of the target's time per token, overlap
    of at least 0.45, a wasted round for at most 1.5 target tokens.
    """
    from paradraft.app.drafters import NAMES
    from paradraft.cli.opening import open_llm
    from paradraft.cli.progress import waiting
    from paradraft.lab.compare import compare_models

    if drafter in NAMES:
        raise ConfigError(f"drafter={drafter!r} has no probabilities to compare.", remedy="Name a model.")
    shared = build_config(config, settings, drafter="none", dtype=dtype)
    ours, theirs = (replace(shared, model=name) for name in (target, drafter))
    with open_llm(ours) as target_llm, open_llm(theirs) as drafter_llm:
        ids = (
            target_llm.tokenizer.encode(prompt)
            if raw
            else target_llm.encode_chat([{"role": "user", "content": prompt}])
        )
        with waiting("Comparing"):
            comparison = compare_models(
                _view(target, target_llm), _view(drafter, drafter_llm), ids, max_tokens=max_tokens
            )
    if as_json:
        print(json.dumps(asdict(comparison), ensure_ascii=False))
    else:
        _show(comparison, target, drafter)


def _view(name: str, llm: LLM) -> View:
    from paradraft.lab.compare import View

    return View(name=name, speaker=llm, tokenizer=llm.tokenizer)


def _show(comparison: Comparison, target: str, drafter: str) -> None:
    from rich.table import Table

    from paradraft.cli.console import out
    from paradraft.lab.compare import BINS

    table = Table(box=None, pad_edge=False)
    for title in ("said", f"target {target}", f"drafter {drafter}", "Jaccard", "p", "q", "p/q"):
        table.add_column(title, justify="left" if title[0] in "std" else "right", overflow="fold")
    for position in comparison.positions:
        table.add_row(
            repr(position.said),
            _guesses(position.target),
            _guesses(position.drafter),
            f"{position.jaccard:.2f}",
            f"{position.p:.3f}",
            f"{position.q:.3f}",
            f"{position.ratio:.2f}",
            style="" if position.is_answer else "dim",
        )
    console = out()
    console.print(table)
    console.print()
    console.print(f"answer: {comparison.answer!r}", markup=False)
    ends = [f"{low:g} to {high:g}" for low, high in zip(BINS, (*BINS[1:], float("inf")), strict=True)]
    console.print("p/q:    " + ", ".join(f"{end}: {n}" for end, n in zip(ends, comparison.histogram, strict=True)))
    console.print(f"same first choice: {comparison.agreement:.0%} of the answer ({comparison.verdict})")
    console.print(f"overlap of probabilities: at least {comparison.overlap:.0%}")
    for check in comparison.checks:
        mark = "ok  " if check.is_met else "warn"
        console.print(f"{mark}  {check.name}: {check.value:.2f} ({check.bound})")


def _guesses(guesses: tuple[Guess, ...]) -> str:
    return " ".join(f"{guess.text!r} {guess.probability:.2f}" for guess in guesses)
