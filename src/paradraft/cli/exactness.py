"""`paradraft exactness`: whether every way of speculating gives the very tokens of plain decoding."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paradraft.app.defaults import settled
from paradraft.cli import options
from paradraft.cli.settings import build_config, parse_integers
from paradraft.core.errors import ConfigError

if TYPE_CHECKING:
    from paradraft.lab.exactness import Case, CaseResult
    from paradraft.lab.ports import Speaker

_ROWS = 8

EXAMPLES = (
    "paradraft exactness --quick",
    "paradraft exactness --drafters ngram --gammas 1,4 --limit 8 --temperatures 0",
)


def exactness(
    model: options.Model = None,
    drafters: Annotated[
        str, typer.Option(help="Drafters to check; `self` is the model as its own.")
    ] = "ngram,suffix,merged,self",
    rule: options.Rule = None,
    gammas: Annotated[str, typer.Option(help="Draft lengths, as 1-8 or 1,4,8.")] = "1-8",
    temperatures: Annotated[str, typer.Option(help="Temperatures, each with one seed per prompt.")] = "0,0.7,1",
    dtype: options.Dtype = "fp32",
    prompts: Annotated[str, typer.Option(help="Prompt set or file.")] = "mt-bench",
    limit: Annotated[int, typer.Option(help="Number of prompts.")] = 40,
    max_tokens: options.MaxTokens = 128,
    peer: Annotated[bool, typer.Option(help="Compare with transformers too.")] = True,
    quick: Annotated[bool, typer.Option("--quick", help="A small fixed part of it.")] = False,
    json_out: Annotated[Path | None, typer.Option("--json", help="File for the results.")] = None,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
) -> None:
    """Answer prompts with every drafter, gamma, order and number of rows, and compare token by token.

    Equal means equal to plain decoding of one prompt at a time, and at temperature 0 to transformers. A first
    difference is forgiven only as a near-tie of logits within the bound of the dtype (fp32: 0.001). Exits with 1 on any
    other difference.
    """
    from paradraft.cli.opening import open_llm, open_peer, read_tasks, weights_for_all
    from paradraft.cli.progress import counting
    from paradraft.lab.exactness import Check, cases_of, check_exactness
    from paradraft.lab.files import write_whole
    from paradraft.lab.near_ties import near_tie_bound
    from paradraft.lab.prompts import build_prompts

    if quick:
        gammas, temperatures, limit, max_tokens = "1,8", "0,0.7", min(limit, 3), min(max_tokens, 16)
    lengths = parse_integers(gammas, "--gammas")
    chosen = build_config(config, settings, model=model, rule=rule, dtype=dtype, gamma=max(lengths))
    chosen = replace(settled(chosen), adaptive=False, max_rows=_ROWS)  # while the model still has its own name
    tasks = read_tasks(prompts)
    with ExitStack() as stack:
        chosen = replace(chosen, model=stack.enter_context(weights_for_all(chosen.model, with_peer=peer)))
        plain = stack.enter_context(open_llm(replace(chosen, drafter="none")))
        cases = _plain_cases(plain, _parse_temperatures(temperatures))
        for name in _names(drafters):
            source = chosen.model if name == "self" else name
            llm = stack.enter_context(open_llm(replace(chosen, drafter=source)))
            cases += cases_of(name, llm, gammas=lengths, temperatures=_parse_temperatures(temperatures), rows=_ROWS)
        if peer:
            cases.append(_peer_case(open_peer(chosen.model, plain.limits.dtype)))
        prompt_set = build_prompts(prompts, tasks, plain.tokenizer, limit=limit)
        check = Check(prompt_set=prompt_set, max_tokens=max_tokens, bound=near_tie_bound(plain.limits.dtype))
        with counting("Checking") as progress:
            results = check_exactness(plain, cases, check, progress=progress)
    if json_out is not None:
        write_whole(json_out, json.dumps([asdict(result) for result in results], indent=1) + "\n")
    _show(results)
    if not all(result.is_passed for result in results):
        raise typer.Exit(1)


def _names(drafters: str) -> list[str]:
    return [name.strip() for name in drafters.split(",") if name.strip()]


def _parse_temperatures(text: str) -> tuple[float, ...]:
    try:
        return tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError as error:
        raise ConfigError(
            f"--temperatures {text!r} is not a list of numbers.", remedy="Write it like 0,0.7,1."
        ) from error


def _plain_cases(plain: Speaker, temperatures: Sequence[float]) -> list[Case]:
    from paradraft.lab.exactness import cases_of

    cases = cases_of("plain", plain, gammas=[0], temperatures=temperatures, rows=_ROWS)
    return [case for case in cases if case.rows > 1]


def _peer_case(peer: Speaker) -> Case:
    from paradraft.lab.exactness import PEER, Case

    return Case(name=PEER, speaker=peer, temperature=0.0, gamma=0, rows=1, order="forward")


def _show(results: Sequence[CaseResult]) -> None:
    from rich.table import Table

    from paradraft.cli.console import out

    table = Table(box=None, pad_edge=False)
    for title in ("drafter", "T", "gamma", "rows", "order", "equal", "near-ties", "tau", "result"):
        table.add_column(title, justify="left" if title in ("drafter", "order", "result") else "right")
    for result in results:
        table.add_row(
            result.name,
            f"{result.temperature:g}",
            str(result.gamma),
            str(result.rows),
            result.order,
            f"{result.num_equal}/{result.num_prompts}",
            str(len(result.near_ties)),
            f"{result.tau:.2f}",
            "pass" if result.is_passed else "FAIL",
        )
    console = out()
    console.print(table)
    for result in results:
        for difference in result.mismatches:
            margin = "unknown" if difference.margin is None else f"{difference.margin:.4g}"
            console.print(
                f"{result.name}, gamma {result.gamma}, {result.rows} rows, {result.order}, T={result.temperature:g}: "
                f"prompt {difference.prompt} differs at token {difference.position}, margin {margin}",
                style="red",
                markup=False,
            )
    failed = sum(not result.is_passed for result in results)
    console.print(f"{len(results)} cases, {failed} failed")
