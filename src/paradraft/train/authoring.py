"""Lets the target write what users say to it: first turns, and what they ask after its first answer.

Its chat template is opened where a user's text would begin, and a chat model goes on with what users say (as in Magpie,
arXiv 2406.08464), here mostly from an opening that is drawn. Such turns need no data set and carry nobody's rights.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from paradraft.core.errors import ModelError
from paradraft.core.ports import Tokenizer
from paradraft.core.records import FinishReason
from paradraft.core.sampling import MAX_SEED, SamplingParams
from paradraft.train.openings import OpeningMix, draw_follow_up, draw_opening
from paradraft.train.plan import CaptureOptions
from paradraft.train.ports import Speaker
from paradraft.train.prompts import Conversation, as_messages

_SHORTEST, _LONGEST = 15, 700  # characters of a first turn
_SHORTEST_LATER = 4  # of a later one
_MAX_TURN_TOKENS = 160
_LATER_ROOM = 64  # tokens of the longest prompt that a first answer leaves to the turn behind it
_LEAST_ANSWER = 24  # tokens of an answer that somebody asks on
_LATER, _ANSWERS = 1 << 36, 1 << 37  # seeds of later turns, and of the answers before them, begin here
_FOLLOWED = 3  # stream of chance
_MARK = "@@here@@"
_SENTENCE = re.compile(r"[\s\S]*[.!?](?=\s|$)")


def write_conversations(speaker: Speaker, options: CaptureOptions, *, first: int, count: int) -> list[Conversation]:
    """Let the target write user turns number first to first + count - 1, and go on after some of them.

    Returns those that are whole, of a sensible length and not alike. Everything about a turn follows from the seed and
    its number. Raises ModelError if the chat template cannot be opened at a user's turn.
    """
    mix = OpeningMix(openings=options.openings, half_written=options.half_written)
    seeds = [options.seed + first + at for at in range(count)]
    turns = _write(speaker, [()] * count, [draw_opening(seed, mix) for seed in seeds], seeds, _SHORTEST)
    begun: dict[str, int] = {}
    for turn, seed in zip(turns, seeds, strict=True):
        if turn is not None:
            begun.setdefault(turn, seed)
    followed = [(turn, seed) for turn, seed in begun.items() if _is_followed(seed, options)]
    longer = _follow(speaker, options, mix, followed)
    return [longer.get(turn, (turn,)) for turn in begun]


def _follow(
    speaker: Speaker, options: CaptureOptions, mix: OpeningMix, followed: Sequence[tuple[str, int]]
) -> dict[str, Conversation]:
    """Return conversations of two turns by their first, for as many as had an answer and a sensible second turn."""
    answers = _answer(speaker, options, followed)
    said = [((turn, answers[turn]), seed) for turn, seed in followed if turn in answers]
    openings = [draw_follow_up(seed, mix) for _, seed in said]
    seeds = [_LATER + seed for _, seed in said]
    turns = _write(speaker, [history for history, _ in said], openings, seeds, _SHORTEST_LATER)
    pairs = zip(said, turns, strict=True)
    return {history[0]: (*history, turn) for (history, _), turn in pairs if turn is not None}


def _answer(speaker: Speaker, options: CaptureOptions, asked: Sequence[tuple[str, int]]) -> dict[str, str]:
    """Return the answers to first turns, up to a whole sentence, where the longest prompt has room for them."""
    tokenizer, prompts, params, kept = speaker.tokenizer, [], [], []
    for turn, seed in asked:
        ids = tokenizer.encode(tokenizer.render_chat(as_messages((turn,))), add_special=False)
        room = min(options.max_prompt_len - len(ids) - _LATER_ROOM, options.max_tokens)
        if room >= _LEAST_ANSWER:
            drawn = (_ANSWERS + seed) % MAX_SEED
            params.append(SamplingParams(temperature=options.temperature, max_tokens=room, seed=drawn))
            prompts.append(ids)
            kept.append(turn)
    results = speaker.generate(prompts, params) if prompts else []
    texts = [_whole(result.choices[0].text, result.choices[0].finish_reason) for result in results]
    return {turn: text for turn, text in zip(kept, texts, strict=True) if text}


def _write(
    speaker: Speaker, histories: Sequence[Conversation], openings: Sequence[str], seeds: Sequence[int], shortest: int
) -> list[str | None]:
    """Return the user's next turn of each conversation, None where it did not end or is not sensible."""
    pairs = zip(histories, openings, strict=True)
    prompts = [_opened(speaker.tokenizer, history, opening) for history, opening in pairs]
    params = [
        SamplingParams(temperature=1.0, top_p=0.98, max_tokens=_MAX_TURN_TOKENS, seed=seed % MAX_SEED) for seed in seeds
    ]
    results = speaker.generate(prompts, params) if prompts else []
    choices = [result.choices[0] for result in results]
    texts = [(opening + choice.text).strip() for opening, choice in zip(openings, choices, strict=True)]
    ended = [choice.finish_reason is FinishReason.STOP for choice in choices]
    return [text if is_whole and _is_sensible(text, shortest) else None
            for text, is_whole in zip(texts, ended, strict=True)]  # fmt: skip


def _opened(tokenizer: Tokenizer, history: Conversation, opening: str) -> list[int]:
    """Return the ids of a conversation up to where the user's next text would go on behind its opening."""
    before, mark, _ = tokenizer.render_chat(as_messages((*history, _MARK))).partition(_MARK)
    if not mark or not before:
        raise ModelError(
            "The chat template does not open a user's turn before its text, so the target cannot write turns itself.",
            remedy="Give prompt files, and set --own-turns 0.",
        )
    return tokenizer.encode(before + opening, add_special=False)


def _is_followed(seed: int, options: CaptureOptions) -> bool:
    return float(np.random.default_rng([_FOLLOWED, seed]).random()) < options.follow_ups


def _whole(text: str, reason: FinishReason | None) -> str:
    """Return an answer that ended, or one that was cut up to its last whole sentence, "" if it has none."""
    if reason is FinishReason.STOP:
        return text.strip()
    found = _SENTENCE.match(text) if reason is FinishReason.LENGTH else None
    return found[0].strip() if found else ""


def _is_sensible(text: str, shortest: int) -> bool:
    return shortest <= len(text) <= _LONGEST and any(map(str.isalpha, text)) and "\ufffd" not in text
