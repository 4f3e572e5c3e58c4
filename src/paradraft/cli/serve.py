"""`paradraft serve`: an OpenAI-compatible server."""

from __future__ import annotations

import ipaddress
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paradraft.cli import options
from paradraft.cli.settings import build_config
from paradraft.core.errors import ConfigError
from paradraft.server.logs import LogFormat, LogLevel

if TYPE_CHECKING:
    from socket import socket

    from paradraft.app.llm import LLM
    from paradraft.core.filtering import FilterFactory
    from paradraft.server.guards.keys import Keys
    from paradraft.server.options import ServerOptions

KEYS_VARIABLE = "PARADRAFT_API_KEYS"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_ENGINE_FAILED = 1
EXAMPLES = (
    "paradraft serve",
    "paradraft serve ./my-model --drafter ./my-drafter --port 9000",
    "paradraft serve --host 0.0.0.0 --api-keys keys.txt --trusted-host llm.example.org",
)

KeysFile = Annotated[
    Path | None,
    typer.Option("--api-keys", help=f"File with an API key per line; or {KEYS_VARIABLE}, with commas."),
]
ToolFormat = Annotated[
    str | None,
    typer.Option(help="How the model writes tool calls (hermes, llama3_json, mistral), if its template misleads."),
]
Limits = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Another bound of the server, as in docs/serving.md; may be repeated."),
]
SmoothingMs = Annotated[
    float, typer.Option(help="Milliseconds within which the tokens of a stream are evened out; 0: not at all.")
]
Smoothing = Annotated[
    str, typer.Option(help="spread (evens out bursts) or rhythm (sends at a fixed beat, against onlookers).")
]
OutputFilter = Annotated[
    str | None,
    typer.Option(metavar="MODULE:FUNCTION", help="Makes the filter that everything said goes through."),
]


def serve(
    model: Annotated[
        str | None,
        typer.Argument(help="Model name, folder, GGUF file or hub id; built in if left out."),
    ] = None,
    drafter: options.Drafter = None,
    host: Annotated[str, typer.Option(help="Address to listen on; any but loopback needs API keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    api_keys: KeysFile = None,
    alias: Annotated[list[str] | None, typer.Option(help="A further name of the model; may be repeated.")] = None,
    trusted_host: Annotated[
        list[str] | None, typer.Option(help="A name this server answers to, beside loopback; * for any.")
    ] = None,
    cors_origin: Annotated[list[str] | None, typer.Option(help="Origin of pages that may call.")] = None,
    max_waiting: Annotated[int, typer.Option(help="Answers that may wait for a row; beyond, 429.")] = 64,
    deadline: Annotated[float, typer.Option(help="Seconds a request may take in all.")] = 600.0,
    tool_format: ToolFormat = None,
    drain: Annotated[float, typer.Option(help="Seconds running requests may go on after SIGTERM.")] = 30.0,
    page: Annotated[bool, typer.Option("--page/--no-page", help="A playground and live charts at /.")] = True,
    stream_smoothing_ms: SmoothingMs = 0.0,
    stream_smoothing: Smoothing = "spread",
    output_filter: OutputFilter = None,
    limit: Limits = None,
    log_level: Annotated[LogLevel, typer.Option(help="Weight from which lines are logged.")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(help="Lines for people, or one JSON object each.")] = LogFormat.TEXT,
    rule: options.Rule = None,
    gamma: options.Gamma = None,
    dtype: options.Dtype = None,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
) -> None:
    """Serve a model with OpenAI's interface: completions, chat, streaming.

    Without API keys it listens on loopback only.
    """
    from paradraft.cli.opening import load_llm
    from paradraft.server.listening import Address, take
    from paradraft.server.logs import configure_logs

    chosen = build_config(config, settings, model=model, drafter=drafter, rule=rule, gamma=gamma, dtype=dtype)
    keys = _keys_for(host, api_keys)
    given = _server_options(
        limit or [],
        aliases=tuple(alias or ()),
        trusted_hosts=(*_LOOPBACK_NAMES, *_own_name(host), *(trusted_host or ())),
        cors_origins=tuple(cors_origin or ()),
        max_waiting=max_waiting,
        deadline_seconds=deadline,
        drain_seconds=drain,
        tool_format=tool_format,
        has_page=page,
        smoothing=stream_smoothing,
        smoothing_ms=stream_smoothing_ms,
    )
    configure_logs(log_level, log_format)
    make_filter = None if output_filter is None else _filter(output_filter)
    door = take(Address(host=host, port=port))  # before the model is loaded: a port in use is no news to wait for
    if not _run(load_llm(chosen), given, keys, door, log_format, make_filter):
        raise typer.Exit(_ENGINE_FAILED)


def _filter(name: str) -> FilterFactory:
    from paradraft.app.serving import load_filter

    return load_filter(name)


def _run(
    llm: LLM,
    given: ServerOptions,
    keys: Keys,
    door: socket,
    style: LogFormat,
    make_filter: FilterFactory | None = None,
) -> bool:
    import uvloop

    from paradraft.app.serving import compose, open_service, warm_up
    from paradraft.cli.progress import waiting
    from paradraft.server.listening import listen

    with waiting("Warming up"):
        warm_up(llm)
    service = open_service(llm)
    app, context = compose(service, given, keys, make_filter=make_filter)
    return uvloop.run(listen(app, context, door, on_ready=lambda url: _announce(llm, url, keys, style)))


def _announce(llm: LLM, url: str, keys: Keys, style: LogFormat) -> None:
    """Say once what is served, how exactly, in how much memory, and where; in the log where programs read it."""
    from paradraft.app.memory import memory_summary
    from paradraft.cli.console import err

    access = f"{len(keys)} API keys" if len(keys) else "no API key needed, so it listens on loopback only"
    lines = (llm.summary(), memory_summary(llm), f"Serving on {url} ({access}). Stop with Ctrl-C.")
    for line in lines:
        if style is LogFormat.JSON:
            logging.getLogger("paradraft.server").info(line)
        else:
            err().print(line, markup=False)


def _server_options(limits: Sequence[str], **given: object) -> ServerOptions:
    """Return the options of the server; limits are read as the numbers they are declared to be."""
    from paradraft.server.options import LIMITS, ServerOptions

    for limit in limits:
        name, equals, value = limit.partition("=")
        if not equals or name not in LIMITS:
            raise ConfigError(f"--limit {limit!r} is not known.", remedy=f"Known, as NAME=VALUE: {', '.join(LIMITS)}.")
        try:
            given[name] = LIMITS[name](value)
        except ValueError as error:
            raise ConfigError(f"--limit {limit!r} is no number.", remedy="Write it as NAME=VALUE.") from error
    return ServerOptions(**given)  # type: ignore[arg-type]


def _keys_for(host: str, file: Path | None) -> Keys:
    """Return the keys; raise ConfigError where the address needs some and there are none."""
    keys = _keys(file)
    _check_address(host, keys)
    return keys


def _keys(file: Path | None) -> Keys:
    from paradraft.server.guards.keys import Keys

    named = os.environ.get(KEYS_VARIABLE, "").split(",")
    if file is not None:
        try:
            named += file.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise ConfigError(f"{file}: the API keys cannot be read ({error}).", remedy="Check the path.") from error
    keys = [key.strip() for key in named if key.strip() and not key.strip().startswith("#")]
    if file is not None and not keys:
        raise ConfigError(f"{file}: there is no API key in it.", remedy="Write one key on each line.")
    return Keys(keys)


def _check_address(host: str, keys: Keys) -> None:
    if not len(keys) and not _is_loopback(host):
        raise ConfigError(
            f"--host {host} can be reached from other machines, and there are no API keys.",
            remedy=f"Name keys with --api-keys or {KEYS_VARIABLE}, or listen on 127.0.0.1.",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _own_name(host: str) -> Sequence[str]:
    """Return the address itself where it is one that clients can name."""
    return () if host in ("0.0.0.0", "::") else (host,)
