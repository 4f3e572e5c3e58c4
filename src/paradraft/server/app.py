"""Puts routes and guards together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from paradraft.core.filtering import FilterFactory
from paradraft.core.ports import Tokenizer
from paradraft.core.serving import Figures, Observer, Service
from paradraft.core.version import __version__
from paradraft.server.admission import Admission
from paradraft.server.errors import add_error_handlers
from paradraft.server.exchange import Context
from paradraft.server.filtering import OutputFiltering, Unfiltered
from paradraft.server.guards.bodies import BodyGuard
from paradraft.server.guards.hosts import HostGuard
from paradraft.server.guards.keys import KeyGuard, Keys
from paradraft.server.journal import Journal
from paradraft.server.options import ServerOptions
from paradraft.server.routes.chat import chat
from paradraft.server.routes.completions import completions
from paradraft.server.routes.embeddings import embeddings
from paradraft.server.routes.health import health
from paradraft.server.routes.metrics import metrics
from paradraft.server.routes.models import models
from paradraft.server.routes.page import page
from paradraft.server.routes.tokens import tokens
from paradraft.server.switchboard import Switchboard


def build_context(
    service: Service, observer: Observer, options: ServerOptions, *, make_filter: FilterFactory | None = None
) -> Context:
    """Return what the routes work with; the service has not been started yet. make_filter: of what answers say."""
    switchboard = Switchboard(service, observer)
    return Context(
        service=service,
        observer=observer,
        options=options,
        switchboard=switchboard,
        admission=Admission(service, switchboard, options),
        filtering=Unfiltered() if make_filter is None else OutputFiltering(make_filter, seconds=options.filter_seconds),
        max_characters=service.model.longest * _longest_token(service.tokenizer),
    )


def _longest_token(tokenizer: Tokenizer) -> int:
    """Return the bytes of the longest token: no token stands for more characters."""
    return max(len(tokenizer.token_bytes(token)) for token in range(tokenizer.vocab_size))


def build_app(context: Context, keys: Keys, figures: Figures | None = None) -> FastAPI:
    """Return the application. Its start-up starts the engine, and only then takes requests.

    figures: what /metrics tells; None: no such route.
    """
    options = context.options

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        context.switchboard.bind()
        context.service.start(context.switchboard.deliver)
        yield

    app = FastAPI(
        title="Paradraft",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # a redirection would name whatever the Host header says
        separate_input_output_schemas=False,
    )
    add_error_handlers(app)
    routes = (chat, completions, embeddings, tokens, models, health, page)
    for router in [route(context) for route in routes]:
        app.include_router(router)
    if figures is not None:
        app.include_router(metrics(context, figures))
    # The last one added is the first that a request meets.
    app.add_middleware(BodyGuard, options=options)
    app.add_middleware(KeyGuard, keys=keys)
    if options.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=options.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(HostGuard, trusted=options.trusted_hosts)
    app.add_middleware(Journal, observer=context.observer)
    return app
