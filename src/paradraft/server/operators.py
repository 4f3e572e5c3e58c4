"""What operators' programs ask, figures and health, as an application of its own behind an address of its own.

Nothing of it can be asked to do anything, and clients who fill the public address are not in its way.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import FastAPI

from paradraft.core.serving import Figures
from paradraft.server.errors import add_error_handlers
from paradraft.server.exchange import Context
from paradraft.server.guards.bodies import BodyGuard
from paradraft.server.guards.hosts import HostGuard
from paradraft.server.guards.keys import KeyGuard, Keys
from paradraft.server.journal import Journal
from paradraft.server.routes.health import health
from paradraft.server.routes.metrics import metrics


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """Who is answered: whoever has one of the keys, anybody where there are none, and calls the server by its name.

    trusted_hosts: as in ServerOptions; a page that was lured to loopback by a name of its own shall not read figures.
    """

    keys: Keys
    trusted_hosts: tuple[str, ...]


def build_operators_app(context: Context, figures: Figures, access: Access) -> FastAPI:
    """Return the application; the engine is started by the public one."""
    app = FastAPI(title="Paradraft", openapi_url=None, redirect_slashes=False)
    add_error_handlers(app)
    for router in (metrics(context, figures), health(context)):
        app.include_router(router)
    # The last one added is the first that a request meets.
    app.add_middleware(BodyGuard, options=context.options)
    app.add_middleware(KeyGuard, keys=access.keys)
    app.add_middleware(HostGuard, trusted=access.trusted_hosts)
    app.add_middleware(Journal, observer=None)  # a probe that is refused is no client's request that was
    return app
