"""How log lines are written: for people, with key=value behind the message, or as one JSON object each."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TextIO

import orjson

_OURS = ("paradraft", "uvicorn")


class LogFormat(StrEnum):
    """The two ways."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """From which weight on lines are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure_logs(level: LogLevel, style: LogFormat, stream: TextIO | None = None) -> None:
    """Write what this package and its HTTP server log to the stream, standard error unless another is given."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if style is LogFormat.JSON else TextLines())
    for name in _OURS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
    if level is LogLevel.INFO:
        logging.getLogger("uvicorn").setLevel(logging.WARNING)  # its information repeats our own


class JsonLines(logging.Formatter):
    """One object for each line: time, level, logger, message, and what the line tells besides."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(_writable(line)).decode()


class TextLines(logging.Formatter):
    """Time, level and message, then key=value; a value that could be mistaken for more than one is quoted."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields = "".join(f" {name}={_plain(value)}" for name, value in getattr(record, "fields", {}).items())
        line = f"{_time_of(record)} {record.levelname:<7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _time_of(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _plain(value: object) -> str:
    """Return a value as it stands, or quoted and escaped where it has spaces, quotes, breaks or odd letters."""
    text = str(value)
    is_simple = text.isascii() and text.isprintable() and not set(text) & set(" \"'=")
    return text if is_simple and text else ascii(text)


def _writable(line: dict[str, object]) -> dict[str, object]:
    """Return a line whose texts can be encoded: a path may hold bytes that are no text."""
    return {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in line.items()
    }
