"""The prompts of one measurement: written as the model's chat template does, repeats left out, hashed."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from paradraft.core.ports import Tokenizer
from paradraft.hub.prompts import Prompt as Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """A prompt as the model reads it."""

    id: str
    category: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptSet:
    """Prompts with their source; `sha256` is over the token ids, so it covers the chat template too."""

    name: str
    sha256: str
    prompts: tuple[Prompt, ...]
    repeated: tuple[str, ...]  # ids left out because an earlier prompt has the same tokens


def build_prompts(
    name: str, tasks: Sequence[Task], tokenizer: Tokenizer, *, limit: int | None = None, is_raw: bool = False
) -> PromptSet:
    """Return at most `limit` tasks, spread over their categories, as token ids.

    The first turn of each is rendered by the chat template, or encoded as it stands where is_raw.
    """
    prompts: dict[tuple[int, ...], Prompt] = {}
    repeated = []
    for task in _spread(tasks)[:limit]:
        token_ids = tuple(_encode(task, tokenizer, is_raw=is_raw))
        if token_ids in prompts:
            repeated.append(task.id)
        else:
            prompts[token_ids] = Prompt(id=task.id, category=task.category or name, token_ids=token_ids)
    digest = hashlib.sha256(json.dumps([list(token_ids) for token_ids in prompts]).encode()).hexdigest()
    return PromptSet(name=name, sha256=digest, prompts=tuple(prompts.values()), repeated=tuple(repeated))


def _encode(task: Task, tokenizer: Tokenizer, *, is_raw: bool) -> list[int]:
    if is_raw:
        return tokenizer.encode(task.text)
    # The template writes its own special tokens.
    return tokenizer.encode(tokenizer.render_chat(task.messages()), add_special=False)


def _spread(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks with the categories taking turns, so that any prefix holds some of each."""
    by_category: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        by_category[task.category].append(task)
    return [task for layer in zip_longest(*by_category.values()) for task in layer if task is not None]
