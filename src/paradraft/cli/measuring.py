"""Opens the arms of a benchmark, runs it and returns its report."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from paradraft.app.config import Config
from paradraft.app.defaults import settled
from paradraft.cli.settings import parse_settings
from paradraft.core.errors import ConfigError

if TYPE_CHECKING:
    from paradraft.app.llm import LLM
    from paradraft.lab.bench.plan import Arm, BenchPlan
    from paradraft.lab.bench.records import BenchReport
    from paradraft.lab.listening import Listener
    from paradraft.lab.prompts import PromptSet

# An arm must not meet its own or another's earlier answer to the same prompt, nor keys and values of it.
_FAIR = {"suffix_shared_tokens": 0, "draft_learned_contexts": 0, "prefix_caching": False}


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What is to be measured, besides the plan."""

    arms: tuple[str, ...]
    gammas: tuple[int, ...]  # of a sweep; empty without one
    peer: str | None
    has_control: bool


def adjust(config: Config, settings: list[str] | None, wanted: Wanted, plan: BenchPlan) -> Config:
    """Return the configuration made fair, with room for all rows; what --set names stays as it is."""
    named = parse_settings(settings)
    fair = {key: value for key, value in _FAIR.items() if key not in named}
    gamma = max(wanted.gammas, default=config.gamma)
    return replace(config, **fair, max_rows=max(plan.concurrency), gamma=gamma)  # type: ignore[arg-type]


def measure(
    config: Config, wanted: Wanted, plan: BenchPlan, *, prompts: str, limit: int | None, is_raw: bool
) -> BenchReport:
    """Load the arms, run them in turns and return the report; prompts are read before any model is."""
    from paradraft.cli.opening import read_tasks, weights_for_all
    from paradraft.cli.progress import counting
    from paradraft.lab.bench.plan import PLAIN
    from paradraft.lab.bench.prompt_time import measure_prompt_times
    from paradraft.lab.bench.report import Measured, build_report
    from paradraft.lab.bench.run import run_bench
    from paradraft.lab.listening import Listener, PlainSpeaker
    from paradraft.lab.prompts import build_prompts
    from paradraft.lab.provenance import gather

    tasks = read_tasks(prompts)
    asked, config = config, settled(config)  # while the model still has its own name
    with ExitStack() as stack:
        same = stack.enter_context(weights_for_all(config.model, with_peer=wanted.peer is not None))
        config = replace(config, model=same)
        listener = Listener()
        plain, arms = _open_arms(stack, config, wanted, listener)
        prompt_set = build_prompts(prompts, tasks, plain.tokenizer, limit=limit, is_raw=is_raw)
        _check_room(config, plan, prompt_set)
        provenance = gather(
            command=["paradraft", *sys.argv[1:]],
            model=identity_of(plain),
            dtype=plain.limits.dtype,
            settings=asdict(_as_asked(config, asked)),
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
            plain=PlainSpeaker(plain, listener),
            runs=runs,
            prompt_set=prompt_set,
            plan=plan,
            prompt_processing=times,
            notes=_notes(config),
        )
        baselines = (PLAIN,) if wanted.peer is None else (PLAIN, wanted.peer)
        return build_report(measured, provenance, baselines=baselines)


def _as_asked(config: Config, asked: Config) -> Config:
    """Return a configuration without the places where this machine keeps what ships."""
    return replace(
        config,
        draft_table=asked.draft_table,
        draft_network=asked.draft_network,
        draft_sources=asked.draft_sources,
    )


def _open_arms(stack: ExitStack, config: Config, wanted: Wanted, listener: Listener) -> tuple[LLM, list[Arm]]:
    from paradraft.cli.opening import open_llm, open_peer
    from paradraft.lab.bench.plan import CONTROL, PLAIN, Arm

    plain = stack.enter_context(open_llm(replace(config, drafter="none"), listener))
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


def identity_of(llm: LLM) -> Mapping[str, str | int | None]:
    """Return which weights an engine runs, and on what."""
    identity = llm.identity
    return {
        "name": identity.name,
        "sha256": identity.sha256,
        "revision": identity.revision,
        "runner": llm.limits.runner,
        "weight_bytes": llm.limits.weight_bytes,
    }
