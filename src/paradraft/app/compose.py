"""The composition root: turns a configuration into an engine. Only here are concrete classes named."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from paradraft.app.config import Config
from paradraft.app.drafters import build_drafter
from paradraft.core.errors import ConfigError
from paradraft.core.ports import Limits, Needs, Tokenizer
from paradraft.drafters.guard import GuardedDrafter
from paradraft.engine.engine import Engine, EngineOptions
from paradraft.kv.pages import PageCache
from paradraft.models.load import LoadedModel, load_model
from paradraft.models.threads import use_threads
from paradraft.verify.acceptor import RuleAcceptor
from paradraft.verify.rules import make_rule


@dataclass(frozen=True, kw_only=True, slots=True)
class Assembly:
    """What was put together."""

    engine: Engine
    model: LoadedModel
    tokenizer: Tokenizer
    summary: str
    closers: tuple[Callable[[], None], ...]

    def close(self) -> None:
        """Free the target and the drafter's own model."""
        for close in self.closers:
            close()


def assemble(config: Config) -> Assembly:
    """Load target and drafter, check that they fit, and wire the engine.

    Raises ConfigError, ModelError or AlignmentError; whatever was loaded by then is freed.
    """
    use_threads(config.threads)
    acceptor = RuleAcceptor(make_rule(config.rule, alpha=config.alpha))
    num_pages = -(-config.kv_tokens // config.page_size)
    model = load_model(
        config.model,
        revision=config.revision,
        dtype=config.dtype,
        device=config.device,
        num_pages=num_pages,
        page_size=config.page_size,
    )
    drafting = build_drafter(config)
    limits = model.target.limits
    longest = longest_row(config, limits)
    engine = Engine(
        target=model.target,
        drafter=GuardedDrafter(drafting.drafter, vocab_size=limits.vocab_size),
        acceptor=acceptor,
        tokenizer=model.tokenizer,
        pages=PageCache(num_pages=num_pages, page_size=config.page_size),
        options=EngineOptions(
            max_rows=config.max_rows,
            longest=longest,
            max_step_tokens=config.max_step_tokens,
            gamma=drafting.gamma,
            nodes=drafting.nodes,
            is_adaptive=config.adaptive,
            reuses_prefixes=config.prefix_caching,
        ),
        clock=time.perf_counter,
    )
    return Assembly(
        engine=engine,
        model=model,
        tokenizer=model.tokenizer,
        summary=_summary(limits, drafting.drafter.needs, config, is_exact=acceptor.is_exact),
        closers=(engine.close, drafting.close),
    )


def longest_row(config: Config, limits: Limits) -> int:
    """Return the most tokens a row may hold: the model's context, the option, and the cache all bound it."""
    if config.max_model_len is not None and config.max_model_len > limits.max_positions:
        raise ConfigError(
            f"max_model_len={config.max_model_len} is longer than the model's context of {limits.max_positions}.",
            remedy=f"Set max_model_len to at most {limits.max_positions}.",
        )
    return min(config.max_model_len or limits.max_positions, limits.max_positions, config.kv_tokens)


def _summary(limits: Limits, needs: Needs, config: Config, *, is_exact: bool) -> str:
    exactness = "exact" if is_exact else "LOSSY: answers may differ from plain decoding"
    cache_bytes = limits.num_pages * limits.page_size * limits.bytes_per_token
    return (
        f"{limits.name} on {limits.runner}, {limits.dtype}, weights {limits.weight_bytes / 1e6:.0f} MB, "
        f"cache up to {cache_bytes / 1e6:.0f} MB; drafter {'+'.join(needs.sources) or 'none'}, "
        f"gamma {config.gamma}; rule {config.rule} ({exactness})"
    )
