"""Prompt sets as records: the built-in ones by name, and JSONL or plain text files."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paradraft.core.errors import ConfigError
from paradraft.hub.assets import ASSETS, bring
from paradraft.hub.wheels import Progress

_ID_KEYS = ("id", "question_id", "task_id")
_TEXT_KEYS = ("prompt", "question")
_FORMS = "Each line is a JSON object with `prompt`, `question`, `turns` (texts) or `messages` (roles and contents)."


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """What a user asks: one text, or several turns to be asked one after the other.

    opening: messages that come before the first turn (a system message, earlier exchanges).
    """

    id: str
    category: str  # "" if the set has none
    turns: tuple[str, ...]
    opening: tuple[Message, ...] = ()

    @property
    def text(self) -> str:
        """Return the first turn."""
        return self.turns[0]

    def messages(self) -> list[dict[str, str]]:
        """Return the conversation up to and including the first turn, as chat templates take it."""
        said = [*self.opening, Message(role="user", content=self.text)]
        return [{"role": message.role, "content": message.content} for message in said]


def read_prompts(source: str, progress: Progress | None = None) -> list[Prompt]:
    """Return the prompts of a built-in set (brought into the cache if need be) or of a file.

    A file named .jsonl or .json (also with .gz behind it) has one JSON object a line; of any other file each line
    that is not blank is a prompt. Raises ConfigError naming the file and line, ModelError if a set cannot be brought.
    """
    asset = ASSETS.get(source)
    if asset is not None and asset.kind != "prompts":
        sets = ", ".join(known.name for known in ASSETS.values() if known.kind == "prompts")
        raise ConfigError(f"{source!r} is not a prompt set.", remedy=f"Use a file or one of {sets}.")
    path = bring(source, progress) if asset is not None else Path(source).expanduser()
    prompts = [_parse(line, path, number) for number, line in _lines(path) if line.strip()]
    if not prompts:
        raise ConfigError(f"{path} has no prompts.", remedy=_FORMS)
    return prompts


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = data.decode("utf-8-sig")
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as text ({error}).", remedy="Save it as UTF-8.") from error
    except OSError as error:
        sets = ", ".join(known.name for known in ASSETS.values() if known.kind == "prompts")
        raise ConfigError(
            f"{path} cannot be read ({error.strerror or error}).", remedy=f"Check the path, or use one of {sets}."
        ) from error
    return enumerate(text.split("\n"), start=1)


def _parse(line: str, path: Path, number: int) -> Prompt:
    where = f"{path}, line {number}"
    names = path.name.lower().removesuffix(".gz")
    if not names.endswith((".jsonl", ".json")):
        return Prompt(id=str(number), category="", turns=(line.strip(),))
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where}: not valid JSON ({error}).", remedy=_FORMS) from error
    if not isinstance(record, dict):
        raise ConfigError(f"{where}: not a JSON object.", remedy=_FORMS)
    turns, opening = _content(record, where)
    identity = next((record[key] for key in _ID_KEYS if isinstance(record.get(key), (str, int))), number)
    category = record.get("category", "")
    return Prompt(
        id=str(identity), category=category if isinstance(category, str) else "", turns=turns, opening=opening
    )


def _content(record: dict[str, object], where: str) -> tuple[tuple[str, ...], tuple[Message, ...]]:
    if "messages" in record:
        return _from_messages(record["messages"], where)
    if "turns" in record:
        turns = record["turns"]
        if not isinstance(turns, list) or not turns:
            raise ConfigError(f"{where}: turns={turns!r} is not a list of texts.", remedy=_FORMS)
        return tuple(_text(turn, "turns", where) for turn in turns), ()
    for key in _TEXT_KEYS:
        if key in record:
            return (_text(record[key], key, where),), ()
    raise ConfigError(f"{where}: no prompt among the keys {', '.join(map(str, record)) or '(none)'}.", remedy=_FORMS)


def _from_messages(messages: object, where: str) -> tuple[tuple[str, ...], tuple[Message, ...]]:
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages) or not messages:
        raise ConfigError(f"{where}: messages is not a list of objects with role and content.", remedy=_FORMS)
    said = [
        Message(role=_text(message.get("role"), "role", where), content=_text(message.get("content"), "content", where))
        for message in messages
    ]
    if said[-1].role != "user":
        raise ConfigError(
            f"{where}: the last message is the {said[-1].role}'s, so nothing is asked.",
            remedy="End messages with one of role user.",
        )
    return (said[-1].content,), tuple(said[:-1])


def _text(value: object, key: str, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where}: {key}={value!r} is not a text.", remedy=_FORMS)
    return value
