"""`paradraft bench`: arms in turns on the same prompts."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paradraft.app.config import Config
from paradraft.cli import options
from paradraft.cli.settings import build_config, parse_integers, parse_names, parse_settings
from paradraft.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paradraft.app.llm import LLM
    from paradraft.lab.bench.plan import Arm, BenchPlan
    from paradraft.lab.bench.records import BenchReport
    from paradraft.lab.prompts import PromptSet

_ARMS = ("plain", "fixed", "adaptive")
_PEERS = ("transformers",)
# An arm must not meet its own or another's earlier answer to the same prompt, nor keys and values of it.
_FAIR = {"suffix_shared_tokens": 0, "prefix_caching": False}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wanted:
    """What is to be measured, besides the plan."""

    arms: tuple[str, ...]
    gammas: tuple[int, ...]  # of a sweep; empty without one
    peer: str | None
    has_control: bool


EXAMPLES = (
    "paradraft bench --limit 8 --max-tokens 64",
    "paradraft bench --drafter ngram --arms plain,fixed,adaptive --concurrency 1,4,8 --json out.json --html out.html",
    "paradraft bench --sweep-gamma 1,2,4,8 --dtype bf16 --peer transformers --html out.html",
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

    wanted = _Wanted(
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
    chosen = build_config(config, settings, model=model, drafter=drafter, rule=rule, gamma=gamma, dtype=dtype)
    _check(wanted, plan, html_out)
    report = _measure(_adjust(chosen, settings, wanted, plan), wanted, plan, prompts=prompts, limit=limit, is_raw=raw)
    _write(report, json_out, html_out)


def _check(wanted: _Wanted, plan: BenchPlan, html_out: Path | None) -> None:
    if "plain" not in wanted.arms:
        raise ConfigError("--arms lacks plain.", remedy="Add plain: every other arm is measured against it.")
    if wanted.peer and plan.temperature > 0:
        raise ConfigError("--peer decodes greedily.", remedy="Leave --temperature at 0, or the peer out.")
    if html_out is not None:
        from paradraft.lab.bench.pictures import require_matplotlib

        require_matplotlib()


def _adjust(config: Config, settings: list[str] | None, wanted: _Wanted, plan: BenchPlan) -> Config:
    """Return the configuration made fair, with room for all rows; what --set names stays as it is."""
    named = parse_settings(settings)
    fair = {key: value for key, value in _FAIR.items() if key not in named}
    gamma = max(wanted.gammas, default=config.gamma)
    return replace(config, **fair, max_rows=max(plan.concurrency), gamma=gamma)  # type: ignore[arg-type]


def _measure(
    config: Config, wanted: _Wanted, plan: BenchPlan, *, prompts: str, limit: int | None, is_raw: bool
) -> BenchReport:
    from paradraft.cli.opening import read_tasks, weights_for_all
    from paradraft.cli.progress import counting
    from paradraft.lab.bench.plan import PLAIN
    from paradraft.lab.bench.prompt_time import measure_prompt_times
    from paradraft.lab.bench.report import Measured, build_report
    from paradraft.lab.bench.run import run_bench
    from paradraft.lab.prompts import build_prompts
    from paradraft.lab.provenance import gather

    tasks = read_tasks(prompts)
    with ExitStack() as stack:
        same = stack.enter_context(weights_for_all(config.model, with_peer=wanted.peer is not None))
        config = replace(config, model=same)
        plain, arms = _open_arms(stack, config, wanted)
        prompt_set = build_prompts(prompts, tasks, plain.tokenizer, limit=limit, is_raw=is_raw)
        _check_room(config, plan, prompt_set)
        provenance = gather(
            command=["paradraft", *sys.argv[1:]],
            model=_identity(plain),
            dtype=plain.limits.dtype,
            settings=asdict(config),
        )
        with counting("Measuring") as progress:
            runs = run_bench(arms, prompt_set, plan, progress=progress)
        with counting("Timing prompts") as progress:
            times = measure_prompt_times(
                [arm for arm in arms if arm.name in (PLAIN, wanted.peer)],
                prompt_set,
                longest=min(config.kv_tokens, plain.limits.max_positions),
                repeats=plan.repeats,
                progress=progress,
            )
        measured = Measured(
            arms=arms,
            runs=runs,
            prompt_set=prompt_set,
            plan=plan,
            prompt_processing=times,
            notes=_notes(config),
        )
        baselines = (PLAIN,) if wanted.peer is None else (PLAIN, wanted.peer)
        return build_report(measured, provenance, baselines=baselines)


def _open_arms(stack: ExitStack, config: Config, wanted: _Wanted) -> tuple[LLM, list[Arm]]:
    from paradraft.cli.opening import open_llm, open_peer
    from paradraft.lab.bench.plan import CONTROL, PLAIN, Arm

    plain = stack.enter_context(open_llm(replace(config, drafter="none")))
    arms = [Arm(name=PLAIN, speaker=plain, is_speculative=False, verb_seconds=lambda: plain.engine.totals.seconds)]
    if "fixed" in wanted.arms:
        fixed = stack.enter_context(open_llm(replace(config, adaptive=False)))
        for gamma in wanted.gammas or (config.gamma,):
            name = f"fixed-{gamma}" if wanted.gammas else "fixed"
            arms.append(Arm(name=name, speaker=fixed, gamma=gamma, verb_seconds=lambda: fixed.engine.totals.seconds))
    if "adaptive" in wanted.arms:
        adaptive = stack.enter_context(open_llm(replace(config, adaptive=True)))
        arms.append(
            Arm(
                name="adaptive",
                speaker=adaptive,
                gamma=config.gamma,
                verb_seconds=lambda: adaptive.engine.totals.seconds,
            )
        )
    if wanted.has_control:
        arms.append(Arm(name=CONTROL, speaker=plain, is_speculative=False))
    if wanted.peer is not None:
        peer = open_peer(config.model, plain.limits.dtype)
        arms.append(Arm(name=wanted.peer, speaker=peer, is_speculative=False))
    return plain, arms


def _check_room(config: Config, plan: BenchPlan, prompt_set: PromptSet) -> None:
    """Refuse a measurement in which rows would be preempted."""
    longest = max(len(prompt.token_ids) for prompt in prompt_set.prompts)
    row = -(-(longest + plan.max_tokens + config.gamma + 1) // config.page_size) * config.page_size
    needed = row * max(plan.concurrency)
    if needed > config.kv_tokens:
        raise ConfigError(
            f"kv_tokens={config.kv_tokens} is too little for {max(plan.concurrency)} rows of up to {row} tokens.",
            remedy=f"Add --set kv_tokens={needed}.",
        )


def _notes(config: Config) -> tuple[str, ...]:
    lifted = [key for key, value in _FAIR.items() if getattr(config, key) != value]
    return (f"{' and '.join(lifted)} on: repeats can replay earlier answers.",) if lifted else ()


def _identity(llm: LLM) -> Mapping[str, str | int | None]:
    identity = llm.identity
    return {
        "name": identity.name,
        "sha256": identity.sha256,
        "revision": identity.revision,
        "runner": llm.limits.runner,
        "weight_bytes": llm.limits.weight_bytes,
    }


def _write(report: BenchReport, json_out: Path | None, html_out: Path | None) -> None:
    import json

    from paradraft.cli.bench_tables import show_report
    from paradraft.lab.bench.page import build_page
    from paradraft.lab.files import write_whole

    show_report(report)
    if json_out is not None:
        write_whole(json_out, json.dumps(asdict(report), indent=1, ensure_ascii=False) + "\n")
    if html_out is not None:
        write_whole(html_out, build_page(report))
