"""Servers on a free port of loopback, in front of engines that tests build."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2 as httpx
import uvicorn

from paradraft import LLM
from paradraft.app.serving import served_model
from paradraft.core.filtering import FilterFactory
from paradraft.core.ports import Tokenizer
from paradraft.core.serving import Figures, Observer, ServedModel
from paradraft.engine.engine import Engine
from paradraft.runtime.inline import InlineService
from paradraft.server.app import build_app, build_context
from paradraft.server.doors import Address, Door
from paradraft.server.exchange import Context
from paradraft.server.guards.keys import Keys
from paradraft.server.listening import server_config
from paradraft.server.options import ServerOptions
from support.byte_tokenizer import EOS, ByteTokenizer
from support.engines import build_engine
from support.quiet_observer import QuietObserver
from support.stub_target import hashed_law

BYTES = 259  # ids of the byte tokenizer
NAME = "stub"


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """A server that runs."""

    url: str
    client: httpx.Client  # JSON over HTTP, with the base URL set
    engine: Engine
    service: InlineService
    context: Context


def stub_engine(**options: object) -> Engine:
    """Return an engine over bytes whose texts are arbitrary but always the same."""
    return build_engine(law=hashed_law(BYTES), vocab_size=BYTES, eos_ids=(EOS,), **options)


def described(engine: Engine) -> ServedModel:
    return ServedModel(
        name=NAME,
        created=1,
        drafter="+".join(engine.drafter.needs.sources) or "none",
        rule="coupled",
        is_exact=True,
        dtype="fp32",
        runner="stub",
        vocab_size=engine.limits.vocab_size,
        longest=engine.options.longest,
        gamma=engine.options.gamma,
        max_rows=engine.options.max_rows,
        embedding_size=engine.embedder.size,
    )


@contextmanager
def served(
    engine: Engine | None = None,
    *,
    options: ServerOptions | None = None,
    keys: Sequence[str] = (),
    observer: Observer | None = None,
    tokenizer: Tokenizer | None = None,
    model: ServedModel | None = None,
    figures: Figures | None = None,
    make_filter: FilterFactory | None = None,
) -> Iterator[Served]:
    """Run a server in front of an engine, the stub unless another is given, and stop it in the end.

    The tokenizer is that of bytes unless another is given.
    """
    engine = engine or stub_engine()
    tokenizer = tokenizer or ByteTokenizer(engine.limits.vocab_size)
    service = InlineService(engine, model=model or described(engine), tokenizer=tokenizer)
    context = build_context(service, observer or QuietObserver(), options or ServerOptions(), make_filter=make_filter)
    server = uvicorn.Server(server_config(build_app(context, Keys(keys), figures), context.options))
    door = Door(Address(port=0))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[door.socket])), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        threading.Event().wait(0.005)
    url = door.url
    headers = {"Authorization": f"Bearer {keys[0]}"} if keys else {}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=20) as client:
            yield Served(url=url, client=client, engine=engine, service=service, context=context)
    finally:
        server.should_exit = True
        thread.join(10)
        service.close(timeout=5)


@contextmanager
def served_model_of(llm: LLM) -> Iterator[Served]:
    """Run a server in front of a loaded model, which stays its owner's."""
    with served(llm.engine, tokenizer=llm.tokenizer, model=served_model(llm)) as running:
        yield running
