"""What an operator decides about a server, checked once."""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.core.errors import ConfigError
from paradraft.server.tools.formats import FORMATS

SPREAD, RHYTHM = "spread", "rhythm"


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerOptions:
    """Bounds and names of one server.

    aliases: further names under which the model answers. trusted_hosts: values of the Host header that are answered,
    without port; `*` allows any. cors_origins: pages of other origins that may call, none by default.
    max_waiting: choices that may wait for a row beyond those that run. max_per_key: choices that the holder of one key
    may have running and waiting, and texts to embed, 0 for no bound. deadline_seconds: from a request's arrival to its
    last token. stall_seconds: how long a step may take before the server says it is not ready. drain_seconds: how long
    a stopping server lets running requests go on. smoothing: how streamed tokens are smoothed (server/smoothing.py):
    `spread` evens out bursts, and smoothing_ms bounds how long a token may wait; `rhythm` sends at a fixed beat of
    smoothing_ms. smoothing_ms 0: tokens are sent as they come. filter_seconds: how long an output filter may look at a
    token. has_page: whether there is a page at `/`. tool_format: how the model writes calls of tools; None: as its chat
    template shows.

    head_seconds, body_seconds: how long the head and the body of a request may take to arrive. send_seconds: how long a
    reader may leave what it was sent unread. max_head_bytes: of the first line and all headers of a request.
    max_lists, max_depth: lists and objects of a body, and how deep they lie in one another.

    Raises ConfigError naming the option, the value and the range.
    """

    aliases: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
    cors_origins: tuple[str, ...] = ()
    max_body_bytes: int = 2 * 1024 * 1024
    max_lists: int = 20_000
    max_depth: int = 64
    max_prompts: int = 64
    max_choices: int = 16
    max_stops: int = 16
    max_biases: int = 1024
    max_waiting: int = 64
    max_per_key: int = 0
    max_connections: int = 1024
    max_head_bytes: int = 32 * 1024
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    send_seconds: float = 60.0
    deadline_seconds: float = 600.0
    stall_seconds: float = 4.0
    drain_seconds: float = 30.0
    smoothing: str = SPREAD
    smoothing_ms: float = 0.0
    tool_format: str | None = None
    filter_seconds: float = 1.0
    has_page: bool = True

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.smoothing not in (SPREAD, RHYTHM):
            raise ConfigError(f"smoothing={self.smoothing!r} is not known.", remedy=f"Use {SPREAD} or {RHYTHM}.")
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if isinstance(value, bool) or not low <= value <= high:
                raise ConfigError(f"{name}={value!r} is not allowed.", remedy=f"Use a number from {low} to {high}.")
        if self.tool_format is not None and self.tool_format not in FORMATS:
            raise ConfigError(
                f"tool_format={self.tool_format!r} is not known.", remedy=f"Choose one of {', '.join(FORMATS)}."
            )


_RANGES = (
    ("max_body_bytes", 1024, 2**30),
    ("max_lists", 16, 2**20),
    ("max_depth", 8, 256),
    ("max_prompts", 1, 4096),
    ("max_choices", 1, 128),
    ("max_stops", 1, 64),
    ("max_biases", 0, 65_536),
    ("max_waiting", 0, 2**20),
    ("max_per_key", 0, 2**20),
    ("max_connections", 1, 2**20),
    ("max_head_bytes", 1024, 2**20),
    ("head_seconds", 0.1, 3_600.0),
    ("body_seconds", 0.1, 3_600.0),
    ("send_seconds", 0.1, 3_600.0),
    ("deadline_seconds", 0.1, 86_400.0),
    ("stall_seconds", 0.1, 3_600.0),
    ("drain_seconds", 0.0, 3_600.0),
    ("smoothing_ms", 0.0, 10_000.0),
    ("filter_seconds", 0.001, 60.0),
)

_OWN_OPTIONS = ("deadline_seconds", "drain_seconds", "max_waiting", "smoothing_ms")

# The bounds that have no option of their own on the command line, each with the kind of its number.
LIMITS: dict[str, type[int] | type[float]] = {name: type(low) for name, low, _ in _RANGES if name not in _OWN_OPTIONS}
