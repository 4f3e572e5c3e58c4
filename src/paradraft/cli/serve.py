"""`paradraft serve`: an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paradraft.cli import options
from paradraft.cli.settings import build_config
from paradraft.core.errors import ConfigError
from paradraft.server.logs import LogFormat, LogLevel

if TYPE_CHECKING:
    from paradraft.app.config import Config
    from paradraft.app.llm import LLM
    from paradraft.cli.reach import Place, Reach
    from paradraft.core.filtering import FilterFactory
    from paradraft.server.options import ServerOptions

_ENGINE_FAILED = 1
EXAMPLES = (
    "paradraft serve",
    "paradraft serve ./my-model --drafter ./my-drafter --port 9000",
    "paradraft serve --host 0.0.0.0 --api-keys keys.txt --trusted-host llm.example.org",
    "paradraft serve --metrics-port 9464",
)

KeysFile = Annotated[
    Path | None,
    typer.Option("--api-keys", help="File with an API key per line; or PARADRAFT_API_KEYS, with commas."),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, help="Metrics and health on a port of their own, 0 a free one; /metrics moves there."
    ),
]
MetricsHost = Annotated[
    str | None, typer.Option(help="Its address, loopback if left out; any other needs the API keys.")
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
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = None,
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
    from paradraft.cli.reach import operators_reach, public_reach, read_keys
    from paradraft.server.logs import configure_logs

    chosen = build_config(config, settings, model=model, drafter=drafter, rule=rule, gamma=gamma, dtype=dtype)
    keys, names = read_keys(api_keys), trusted_host or ()
    public = public_reach(host, port, keys, names)
    apart = operators_reach(metrics_host, metrics_port, public, keys, names)
    given = _server_options(
        limit or [],
        aliases=tuple(alias or ()),
        trusted_hosts=public.access.trusted_hosts,
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
    if not _run(chosen, given, public, apart, log_format, _filter(output_filter)):
        raise typer.Exit(_ENGINE_FAILED)


def _filter(name: str | None) -> FilterFactory | None:
    from paradraft.app.serving import load_filter

    return None if name is None else load_filter(name)


def _run(
    config: Config,
    given: ServerOptions,
    public: Reach,
    apart: Reach | None,
    style: LogFormat,
    make_filter: FilterFactory | None,
) -> bool:
    from paradraft.cli.opening import load_llm
    from paradraft.cli.reach import taken

    with ExitStack() as held:  # before the model is loaded: a port in use is no news to wait for
        place = held.enter_context(taken(public))
        operators = None if apart is None else held.enter_context(taken(apart))
        return _serve(load_llm(config), given, place, operators, style, make_filter)


def _serve(
    llm: LLM,
    given: ServerOptions,
    public: Place,
    operators: Place | None,
    style: LogFormat,
    make_filter: FilterFactory | None,
) -> bool:
    import uvloop

    from paradraft.app.serving import compose, open_service, warm_up
    from paradraft.cli.announcing import announce
    from paradraft.cli.progress import waiting
    from paradraft.server.listening import Entrance, listen

    with waiting("Warming up"):
        warm_up(llm)
    access = None if operators is None else operators.access
    server = compose(open_service(llm), given, public.access.keys, operators=access, make_filter=make_filter)
    front, apart = Entrance(app=server.app, door=public.door), None
    if operators is not None and server.operators is not None:
        apart = Entrance(app=server.operators, door=operators.door)
    return uvloop.run(listen(server.context, front, apart, on_ready=lambda: announce(llm, public, operators, style)))


def _server_options(limits: Sequence[str], **given: object) -> ServerOptions:
    """Return the options of the server; limits are read as the numbers they are declared to be."""
    from paradraft.server.options import LIMITS, ServerOptions

    for limit in limits:
        name, _, value = limit.partition("=")
        if name not in LIMITS:
            raise ConfigError(f"--limit {limit!r} is not known.", remedy=f"Known, as NAME=VALUE: {', '.join(LIMITS)}.")
        try:
            given[name] = LIMITS[name](value)
        except ValueError as error:
            raise ConfigError(f"--limit {limit!r} is no number.", remedy="Write it as NAME=NUMBER.") from error
    return ServerOptions(**given)  # type: ignore[arg-type]
