"""`paradraft bench`: arms in turns on the same prompts."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paradraft.cli import options
from paradraft.cli.bench_passes import bench_passes
from paradraft.cli.measuring import Wanted, adjust, measure
from paradraft.cli.settings import build_config, parse_integers, parse_names
from paradraft.core.errors import ConfigError

if TYPE_CHECKING:
    from paradraft.lab.bench.plan import BenchPlan
    from paradraft.lab.bench.records import BenchReport

_ARMS = ("plain", "fixed", "adaptive")
_PEERS = ("transformers",)
_ROUNDS = 10  # of passes, for each repeat asked for

EXAMPLES = (
    "paradraft bench --limit 8 --max-tokens 64",
    "paradraft bench --drafter ngram --arms plain,fixed,adaptive --concurrency 1,4,8 --json out.json --html out.html",
    "paradraft bench --sweep-gamma 1,2,4,8 --dtype bf16 --peer transformers --html out.html",
    "paradraft bench --passes 1,8,16 --dtype bf16 --json passes.json",
)


def bench(
    model: options.Model = None,
    drafter: options.Drafter = None,
    rule: options.Rule = None,
    gamma: options.Gamma = None,
    dtype: options.Dtype = None,
    prompts: Annotated[str, typer.Option(help="mt-bench, humaneval, gsm8k-100, or a file.")] = "mt-bench",
    limit: Annotated[int | None, typer.Option(help="Use so many prompts, some of each category.")] = None,
    max_tokens: options.MaxTokens = 128,
    arms: Annotated[str, typer.Option(help="plain, fixed, adaptive.")] = "plain,fixed",
    sweep_gamma: Annotated[str | None, typer.Option(help="A `fixed` arm for each of these gammas, as 1,2,4,8.")] = None,
    concurrency: Annotated[str, typer.Option(help="Rows answered together, as 1,4,8.")] = "1",
    repeats: Annotated[int, typer.Option(help="Paired repeats; five or more for a figure to quote.", min=1)] = 5,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = 0,
    short: Annotated[str, typer.Option(help="Output lengths to measure besides, or none.")] = "8,32",
    peer: Annotated[str | None, typer.Option(help="transformers: the same weights, decoded by it alone.")] = None,
    passes: Annotated[str | None, typer.Option(help="Time passes over so many tokens instead, as 1,8.")] = None,
    control: Annotated[bool, typer.Option(help="Decode plainly twice, to see what noise does.")] = True,
    raw: Annotated[bool, typer.Option("--raw", help="Take prompts as they stand, without chat template.")] = False,
    json_out: Annotated[Path | None, typer.Option("--json", help="File for all figures.")] = None,
    html_out: Annotated[Path | None, typer.Option("--html", help="File for a page with pictures.")] = None,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
) -> None:
    """Measure speculative against plain decoding: arms in turns on the same prompts, equal lengths, paired repeats.

    No speed-up is printed if lengths differ or an answer differs from plain decoding by more than a near-tie (logit
    margin up to 0.001 in fp32, 0.5 in bf16). docs/benchmarking.md defines every figure.
    """
    from paradraft.lab.bench.plan import BenchPlan

    chosen = build_config(config, settings, model=model, drafter=drafter, rule=rule, gamma=gamma, dtype=dtype)
    if passes is not None:
        bench_passes(chosen, parse_integers(passes, "--passes"), rounds=_ROUNDS * repeats, json_out=json_out)
        return
    wanted = Wanted(
        arms=parse_names(arms, "--arms", _ARMS),
        gammas=parse_integers(sweep_gamma, "--sweep-gamma") if sweep_gamma else (),
        peer=None if peer is None else parse_names(peer, "--peer", _PEERS)[0],
        has_control=control,
    )
    plan = BenchPlan(
        max_tokens=max_tokens,
        concurrency=parse_integers(concurrency, "--concurrency"),
        repeats=repeats,
        temperature=temperature,
        seed=seed or 0,
        short_lengths=() if short == "none" else parse_integers(short, "--short"),
    )
    _check(wanted, plan, html_out)
    report = measure(adjust(chosen, settings, wanted, plan), wanted, plan, prompts=prompts, limit=limit, is_raw=raw)
    _write(report, json_out, html_out)


def _check(wanted: Wanted, plan: BenchPlan, html_out: Path | None) -> None:
    if "plain" not in wanted.arms:
        raise ConfigError("--arms lacks plain.", remedy="Add plain: every other arm is measured against it.")
    if wanted.peer and plan.temperature > 0:
        raise ConfigError("--peer decodes greedily.", remedy="Leave --temperature at 0, or the peer out.")
    if html_out is not None:
        from paradraft.lab.bench.pictures import require_matplotlib

        require_matplotlib()


def _write(report: BenchReport, json_out: Path | None, html_out: Path | None) -> None:
    from paradraft.cli.bench_tables import show_report
    from paradraft.lab.bench.page import build_page
    from paradraft.lab.files import write_whole

    show_report(report)
    if json_out is not None:
        write_whole(json_out, json.dumps(asdict(report), indent=1, ensure_ascii=False) + "\n")
    if html_out is not None:
        write_whole(html_out, build_page(report))
