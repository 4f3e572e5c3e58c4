"""What the target is asked while it is captured: prompts of files and turns of its own, as tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from paradraft.core.ports import Tokenizer
from paradraft.hub.prompts import Prompt
from paradraft.train.overlap import Overlap, words_of

OWN = "self"  # source of the target's own turns
Conversation = tuple[str, ...]  # what was said, the user first and last


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One conversation for the target to answer: its messages, and where they come from."""

    messages: tuple[tuple[str, str], ...]  # (role, content)
    source: str

    @property
    def text(self) -> str:
        """Return all that was said."""
        return "\n".join(content for _, content in self.messages)

    def encode(self, tokenizer: Tokenizer) -> list[int]:
        """Return the ids that a chat with these messages is served with."""
        messages = [{"role": role, "content": content} for role, content in self.messages]
        return tokenizer.encode(tokenizer.render_chat(messages), add_special=False)


def roles_of(said: Conversation) -> tuple[tuple[str, str], ...]:
    """Return what user and assistant said in turns, each with its role."""
    return tuple(("assistant" if at % 2 else "user", text) for at, text in enumerate(said))


def as_messages(said: Conversation) -> list[dict[str, str]]:
    """Return what user and assistant said in turns, as a chat template reads it."""
    return [{"role": role, "content": text} for role, text in roles_of(said)]


def tasks_of(prompts: Iterable[Prompt], source: str) -> list[Task]:
    """Return prompts as tasks; of prompts with several turns the first."""
    return [
        Task(messages=tuple((said["role"], said["content"]) for said in prompt.messages()), source=source)
        for prompt in prompts
    ]


def held_out_texts(prompts: Iterable[Prompt]) -> list[str]:
    """Return every text of prompts that are to be measured: all turns, and what users said before."""
    return [
        text
        for prompt in prompts
        for text in (*prompt.turns, *(said.content for said in prompt.opening if said.role == "user"))
    ]


def select(tasks: Sequence[Task], overlap: Overlap, *, seed: int) -> tuple[list[Task], Counter[str]]:
    """Return tasks in an order drawn from seed, without repetitions and held-out text; and what was left out."""
    kept: dict[tuple[str, ...], Task] = {}
    left_out: Counter[str] = Counter()
    for task in tasks:
        words = words_of(task.text)
        reason = "repeated" if words in kept else "held out" if overlap.taints(task.text) else ""
        if reason:
            left_out[reason] += 1
        else:
            kept[words] = task
    chosen = list(kept.values())
    order = np.random.default_rng(seed).permutation(len(chosen))
    return [chosen[at] for at in order.tolist()], left_out
