"""What a server says at its start."""

from __future__ import annotations

import logging

from paradraft.app.llm import LLM
from paradraft.app.memory import memory_summary
from paradraft.cli.console import err
from paradraft.cli.reach import Place
from paradraft.server.logs import LogFormat


def announce(llm: LLM, public: Place, operators: Place | None, style: LogFormat) -> None:
    """Say once what is served, how exactly, in how much memory, and where; in the log where programs read it."""
    lines = [llm.summary(), memory_summary(llm)]
    if operators is not None:
        lines.append(f"Metrics and health on {operators.door.url} ({_access(operators)}).")
    lines.append(f"Serving on {public.door.url} ({_access(public)}). Stop with Ctrl-C.")
    for line in lines:
        if style is LogFormat.JSON:
            logging.getLogger("paradraft.server").info(line)
        else:
            err().print(line, markup=False)


def _access(place: Place) -> str:
    count = len(place.access.keys)
    if not count:
        return "no API key needed, so it listens on loopback only"
    return "1 API key" if count == 1 else f"{count} API keys"
