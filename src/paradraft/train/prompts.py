"""What the target is asked while it is captured: prompt files, and user turns that it writes itself.

Its own turns come from its chat template with nothing behind the user's opening: a chat model goes on with what
users say (as in Magpie, arXiv 2406.08464). They need no data set and carry nobody's rights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from paradraft.core.errors import ModelError
from paradraft.core.ports import Tokenizer
from paradraft.core.records import FinishReason
from paradraft.core.sampling import MAX_SEED, SamplingParams
from paradraft.hub.prompts import Prompt
from paradraft.train.overlap import Overlap, words_of
from paradraft.train.ports import Speaker

OWN = "self"  # source of the target's own turns
_SHORTEST, _LONGEST = 15, 700  # characters of an own turn
_MAX_TURN_TOKENS = 160
_MARK = "@@here@@"


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


def write_turns(speaker: Speaker, *, count: int, seed: int) -> list[str]:
    """Let the target write user turns; return those that are whole, of a sensible length and not alike.

    Turn i draws with seed + i, so the same call gives the same turns. Raises ModelError if the chat template cannot
    be opened at a user's turn.
    """
    opening = _opening(speaker.tokenizer)
    params = [
        SamplingParams(temperature=1.0, top_p=0.98, max_tokens=_MAX_TURN_TOKENS, seed=(seed + at) % MAX_SEED)
        for at in range(count)
    ]
    answers = [result.choices[0] for result in speaker.generate([list(opening)] * count, params)]
    whole = [answer.text.strip() for answer in answers if answer.finish_reason is FinishReason.STOP]
    return list(dict.fromkeys(text for text in whole if _is_sensible(text)))


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


def _opening(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of a conversation up to where the user's text would begin."""
    before, mark, _ = tokenizer.render_chat([{"role": "user", "content": _MARK}]).partition(_MARK)
    if not mark or not before:
        raise ModelError(
            "The chat template does not open a user's turn before its text, so the target cannot write turns itself.",
            remedy="Give prompt files, and set --own-turns 0.",
        )
    return tokenizer.encode(before, add_special=False)


def _is_sensible(text: str) -> bool:
    return _SHORTEST <= len(text) <= _LONGEST and any(map(str.isalpha, text)) and "\ufffd" not in text
