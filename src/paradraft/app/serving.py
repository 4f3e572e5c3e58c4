"""Composes a server: an engine on its thread, warmed up, behind the routes."""

from __future__ import annotations

import gc
import importlib
import time
from dataclasses import dataclass

from fastapi import FastAPI

from paradraft.app.llm import LLM
from paradraft.core.errors import ConfigError
from paradraft.core.filtering import FilterFactory
from paradraft.core.sampling import SamplingParams
from paradraft.core.serving import ServedModel, Service
from paradraft.observe.metrics import ServingMetrics
from paradraft.runtime.inline import InlineService
from paradraft.server.app import build_app, build_context
from paradraft.server.exchange import Context
from paradraft.server.guards.keys import Keys
from paradraft.server.operators import Access, build_operators_app
from paradraft.server.options import ServerOptions

_WARM_TOKENS = 24  # of an answer; enough for every kind of step to have run


def open_service(llm: LLM) -> InlineService:
    """Return a service around a loaded model; closing it closes the model."""
    return InlineService(llm.engine, model=served_model(llm), tokenizer=llm.tokenizer, on_close=llm.close)


def served_model(llm: LLM) -> ServedModel:
    """Return what is served, as data."""
    config, limits, engine = llm.config, llm.limits, llm.engine
    return ServedModel(
        name=limits.name,
        created=int(time.time()),
        drafter="+".join(engine.drafter.needs.sources) or "none",
        rule=config.rule,
        is_exact=llm.is_exact,
        dtype=limits.dtype,
        runner=limits.runner,
        vocab_size=limits.vocab_size,
        longest=engine.options.longest,
        gamma=engine.options.gamma,
        max_rows=engine.options.max_rows,
        embedding_size=engine.embedder.size,
    )


def warm_up(llm: LLM) -> None:
    """Run short requests of one and of several rows, so that the first client waits for nothing, and settle memory."""
    prompt = llm.tokenizer.encode("The quick brown fox jumps over the lazy dog.")
    params = SamplingParams(max_tokens=_WARM_TOKENS, ignore_eos=True, seed=0)
    longest = min(len(prompt), llm.engine.options.longest - 2)
    for count in (1, min(4, llm.config.max_rows)):
        llm.generate([prompt[:longest]] * count, params)
    gc.collect()
    gc.freeze()  # what was loaded stays; collecting it again and again would only stall steps


@dataclass(frozen=True, kw_only=True, slots=True)
class Composed:
    """A server, ready to listen. operators: what shows the figures apart, None where the application itself does."""

    app: FastAPI
    context: Context
    operators: FastAPI | None


def compose(
    service: Service,
    options: ServerOptions,
    keys: Keys,
    *,
    operators: Access | None = None,
    make_filter: FilterFactory | None = None,
) -> Composed:
    """Return a server whose figures stand at its /metrics, or apart for those whom `operators` lets in.

    make_filter: of what answers say, none by default.
    """
    metrics = ServingMetrics(service.model)
    context = build_context(service, metrics, options, make_filter=make_filter)
    if operators is None:
        return Composed(app=build_app(context, keys, metrics), context=context, operators=None)
    apart = build_operators_app(context, metrics, operators)
    return Composed(app=build_app(context, keys), context=context, operators=apart)


def load_filter(name: str) -> FilterFactory:
    """Return what `module:function` names, a function without parameters that returns the filter of a choice.

    Raises ConfigError for what cannot be imported or called.
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ConfigError(f"The output filter {name!r} is not of the form module:function.", remedy="Name it so.")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"The output filter {name!r} cannot be imported ({error}).",
            remedy="Install its module, or name its folder in PYTHONPATH.",
        ) from error
    if not (callable(found) and callable(found())):
        raise ConfigError(
            f"The output filter {name!r} does not return a filter.",
            remedy="Name a function without parameters that returns a function of a text and whether it is the last.",
        )
    make: FilterFactory = found
    return make
