"""`paradraft exactness`: whether every way of speculating gives the very tokens of plain decoding."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paradraft.app.config import Config
from paradraft.app.defaults import settled
from paradraft.cli import options
from paradraft.cli.settings import build_config, parse_integers, parse_share
from paradraft.core.errors import ConfigError

if TYPE_CHECKING:
    from paradraft.app.llm import LLM
    from paradraft.hub.prompts import Prompt
    from paradraft.lab.exactness.cases import Case
    from paradraft.lab.exactness.check import CaseResult, Check
    from paradraft.lab.exactness.ledger import Contents
    from paradraft.lab.ports import Speaker
    from paradraft.train.units import Share

_ROWS = 8

EXAMPLES = (
    "paradraft exactness --quick",
    "paradraft exactness --drafters ngram --gammas 1,4 --limit 8 --temperatures 0",
    "paradraft exactness --json out/exactness-0.json --part 0/2 --set threads=1",
    "paradraft exactness --show out/exactness-0.json out/exactness-1.json",
)


def exactness(
    files: Annotated[list[Path] | None, typer.Argument(help="With --show: files that --json wrote.")] = None,
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
    part: Annotated[str, typer.Option(help="Share the cases: 0/2 and 1/2 run side by side.")] = "0/1",
    json_out: Annotated[
        Path | None, typer.Option("--json", help="File for the results; cases that it holds are not repeated.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print what files hold, and run nothing.")] = False,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
) -> None:
    """Answer prompts with every drafter, gamma, order and number of rows, and compare token by token.

    Equal means equal to plain decoding of one prompt at a time, and at temperature 0 to transformers. A first
    difference is forgiven only as a near-tie of logits within the bound of the dtype (fp32: 0.001). Exits with 1 on any
    other difference. With --json every finished case is written at once, and the same command goes on after a stop.
    """
    if show or files:
        _show_files(files or [], is_asked=show)
        return
    if quick:
        gammas, temperatures, limit, max_tokens = "1,8", "0,0.7", min(limit, 3), min(max_tokens, 16)
    lengths = parse_integers(gammas, "--gammas")
    chosen = build_config(config, settings, model=model, rule=rule, dtype=dtype, gamma=max(lengths))
    wanted = _Wanted(
        cases=_cases(drafters, lengths, _parse_temperatures(temperatures), with_peer=peer),
        with_peer=peer,
        share=parse_share(part),
        prompts=prompts,
        limit=limit,
        max_tokens=max_tokens,
        json_out=json_out,
    )
    _finish(_run(replace(chosen, adaptive=False, max_rows=_ROWS), wanted))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wanted:
    """What is asked for, besides the engine's configuration."""

    cases: Sequence[Case]  # of all parts
    with_peer: bool
    share: Share
    prompts: str
    limit: int
    max_tokens: int
    json_out: Path | None


def _cases(names: str, gammas: Sequence[int], temperatures: Sequence[float], *, with_peer: bool) -> list[Case]:
    from paradraft.lab.exactness.cases import matrix

    drafters = [name.strip() for name in names.split(",") if name.strip()]
    return matrix(drafters, gammas=gammas, temperatures=temperatures, rows=_ROWS, with_peer=with_peer)


def _run(config: Config, wanted: _Wanted) -> list[CaseResult]:
    from paradraft.cli.opening import open_llm, read_tasks, weights_for_all
    from paradraft.cli.progress import following
    from paradraft.lab.exactness.cases import share
    from paradraft.lab.exactness.ledger import Ledger
    from paradraft.lab.exactness.run import MatrixRun
    from paradraft.lab.listening import Listener, PlainSpeaker

    tasks = read_tasks(wanted.prompts)
    named = settled(config)  # while the model still has its own name
    with weights_for_all(config.model, with_peer=wanted.with_peer) as weights:
        chosen = replace(named, model=weights)
        listener = Listener()
        with open_llm(replace(chosen, drafter="none"), listener) as plain:
            check = _check(plain, tasks, wanted)
            ledger = Ledger.open(wanted.json_out, _begin(config, plain, check, wanted))
            with following("Checking") as watch:
                return MatrixRun(
                    cases=share(wanted.cases, wanted.share.part, wanted.share.parts),
                    check=check,
                    plain=PlainSpeaker(plain, listener),
                    open_speaker=_opener(chosen, plain.limits.dtype),
                    ledger=ledger,
                    watch=watch,
                ).run()


def _check(plain: LLM, tasks: Sequence[Prompt], wanted: _Wanted) -> Check:
    from paradraft.lab.exactness.check import Check
    from paradraft.lab.near_ties import near_tie_bound
    from paradraft.lab.prompts import build_prompts

    prompt_set = build_prompts(wanted.prompts, tasks, plain.tokenizer, limit=wanted.limit)
    return Check(prompt_set=prompt_set, max_tokens=wanted.max_tokens, bound=near_tie_bound(plain.limits.dtype))


def _begin(config: Config, plain: LLM, check: Check, wanted: _Wanted) -> Contents:
    from paradraft.cli.measuring import identity_of
    from paradraft.lab.exactness.ledger import begin
    from paradraft.lab.machine import read_machine
    from paradraft.lab.provenance import gather

    # The weights are known by their hash wherever they lie, and each case names its drafter.
    settings = {name: value for name, value in asdict(config).items() if name not in ("model", "drafter")}
    settings["threads"] = config.threads or read_machine().omp_threads  # the order of sums depends on it
    provenance = gather(
        command=["paradraft", *sys.argv[1:]], model=identity_of(plain), dtype=plain.limits.dtype, settings=settings
    )
    return begin(provenance, check, wanted.cases, f"{wanted.share.part}/{wanted.share.parts}")


def _opener(config: Config, dtype: str) -> Callable[[str], AbstractContextManager[Speaker]]:
    from paradraft.cli.opening import open_llm, open_peer
    from paradraft.lab.exactness.cases import PEER

    @contextmanager
    def opened(name: str) -> Iterator[Speaker]:
        if name == PEER:
            yield open_peer(config.model, dtype)
            return
        with open_llm(replace(config, drafter=config.model if name == "self" else name)) as llm:
            yield llm

    return opened


def _parse_temperatures(text: str) -> tuple[float, ...]:
    try:
        return tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError as error:
        raise ConfigError(
            f"--temperatures {text!r} is not a list of numbers.", remedy="Write it like 0,0.7,1."
        ) from error


def _finish(results: Sequence[CaseResult]) -> None:
    from paradraft.cli.exactness_table import show_results

    show_results(results)
    if not all(result.is_passed for result in results):
        raise typer.Exit(1)


def _show_files(files: Sequence[Path], *, is_asked: bool) -> None:
    from paradraft.cli.exactness_table import show_contents
    from paradraft.lab.exactness.ledger import merge

    if not (files and is_asked):
        raise ConfigError(
            "Files belong to --show, and --show needs files.", remedy="Write it like: --show out/exactness.json"
        )
    contents = merge(files)
    show_contents(contents)
    if contents.missing() or not all(result.is_passed for result in contents.results):
        raise typer.Exit(1)
