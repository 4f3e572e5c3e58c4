"""The composition root: turns a configuration into an engine. Only here are concrete classes named."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from paradraft.app.config import AUTO, Config
from paradraft.app.defaults import settled
from paradraft.app.drafters import Drafting, build_drafter, drafter_names
from paradraft.app.opened import fit_networks, needs_of, open_networks, runner_notes
from paradraft.app.running import running_of
from paradraft.app.selecting import open_selector, select_positions, with_attention
from paradraft.core.errors import ConfigError
from paradraft.core.memory import return_freed_memory
from paradraft.core.ports import Drafter, Limits
from paradraft.drafters.guard import GuardedDrafter
from paradraft.engine.engine import Engine, EngineOptions
from paradraft.kv.pages import PageCache
from paradraft.models.load import LoadedModel, load_model
from paradraft.models.threads import limit_torch
from paradraft.native.chooser import find_chooser
from paradraft.scheduling.calibration import Calibration, read_calibration
from paradraft.structured.compiler import GrammarCompiler
from paradraft.structured.rows import RowGrammars
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.rules import Rule, make_rule


@dataclass(frozen=True, kw_only=True, slots=True)
class Assembly:
    """What was put together."""

    engine: Engine
    model: LoadedModel
    summary: str
    is_exact: bool
    resources: ExitStack  # frees the target and the drafter's own model


def assemble(config: Config, custom: Drafter | None = None) -> Assembly:
    """Load target and drafter, check that they fit, and wire the engine.

    custom: a drafter of the caller's own in place of the configured one; it taps what its needs name.
    Raises ConfigError, ModelError or AlignmentError; whatever was loaded by then is freed.
    """
    config = settled(config)
    rule = make_rule(config.rule, alpha=config.alpha)
    opened = open_networks(drafter_names(config), config) if custom is None else {}
    selector = open_selector(config, rule)
    with ExitStack() as loaded:
        model = load_model(
            config.model,
            revision=config.revision,
            running=running_of(config),
            num_pages=-(-config.kv_tokens // config.page_size),
            page_size=config.page_size,
            needs=with_attention(needs_of(opened) if custom is None else custom.needs, selector),
        )
        loaded.callback(model.target.close)
        opened, notes = fit_networks(opened, model)
        notes = (*_runner_notes(config, model), *runner_notes(opened, config, model), *model.notes, *notes)
        if custom is not None:
            drafting = Drafting(drafter=custom, gamma=config.gamma, nodes=config.gamma)
        else:
            drafting = build_drafter(config, model, rule, loaded, opened)
        if selector is not None:
            shaped, nodes = select_positions(drafting.drafter, selector, config)
            drafting = replace(drafting, drafter=shaped, nodes=nodes)
        limit_torch(config.threads)
        return_freed_memory()
        return Assembly(
            engine=_wire(config, model, drafting, rule),
            model=model,
            summary=" ".join([_summary(model.target.limits, drafting, config, is_exact=rule.is_exact), *notes]),
            is_exact=rule.is_exact,
            resources=loaded.pop_all(),
        )


def _wire(config: Config, model: LoadedModel, drafting: Drafting, rule: Rule) -> Engine:
    limits = model.target.limits
    grammars = RowGrammars(GrammarCompiler(model.tokenizer, vocab_size=limits.vocab_size))
    path = config.draft_calibration
    calibration = Calibration() if path is None else read_calibration(Path(path))
    return Engine(
        target=model.target,
        drafter=GuardedDrafter(drafting.drafter, vocab_size=limits.vocab_size),
        acceptor=RuleAcceptor(rule, chooser=find_chooser(), grammars=grammars),
        tokenizer=model.tokenizer,
        pages=PageCache(num_pages=limits.num_pages, page_size=limits.page_size),
        options=EngineOptions(
            max_rows=config.max_rows,
            longest=longest_row(config, limits),
            max_step_tokens=config.max_step_tokens,
            gamma=drafting.gamma,
            nodes=drafting.nodes,
            is_adaptive=config.adaptive,
            node_price=config.draft_price,
            schedules_verification=config.schedule_verification,
            calibration=calibration,
            reuses_prefixes=config.prefix_caching,
        ),
        clock=time.perf_counter,
        grammars=grammars,
    )


def _runner_notes(config: Config, model: LoadedModel) -> tuple[str, ...]:
    """Return why torch runs the target, where that was left to us."""
    return () if config.runner != AUTO or model.why_not_native is None else (f"Not native: {model.why_not_native}.",)


def longest_row(config: Config, limits: Limits) -> int:
    """Return the most tokens a row may hold: max_model_len, or else what the model's context and the cache allow."""
    if config.max_model_len is None:
        return min(limits.max_positions, config.kv_tokens)
    if config.max_model_len > limits.max_positions:
        raise ConfigError(
            f"max_model_len={config.max_model_len} is longer than the model's context of {limits.max_positions}.",
            remedy=f"Set max_model_len to at most {limits.max_positions}.",
        )
    if config.max_model_len > config.kv_tokens:
        raise ConfigError(
            f"max_model_len={config.max_model_len} does not fit into a cache of kv_tokens={config.kv_tokens}.",
            remedy=f"Set kv_tokens to at least {config.max_model_len}, or max_model_len lower.",
        )
    return config.max_model_len


def _summary(limits: Limits, drafting: Drafting, config: Config, *, is_exact: bool) -> str:
    exactness = "exact" if is_exact else "LOSSY: answers may differ from plain decoding"
    cache_bytes = limits.num_pages * limits.page_size * limits.bytes_per_token
    needs = drafting.drafter.needs
    memory = f" ({needs.extra_bytes / 1e6:.0f} MB)" if needs.extra_bytes else ""
    return (
        f"{limits.name} on {limits.runner}, {limits.dtype}, weights {limits.weight_bytes / 1e6:.0f} MB, "
        f"cache up to {cache_bytes / 1e6:.0f} MB; drafter {'+'.join(needs.sources) or 'none'}{memory}, "
        f"gamma {drafting.gamma}; rule {config.rule} ({exactness})"
    )
