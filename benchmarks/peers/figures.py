"""What the turns come to: tokens per second with their spread, ratios to the best peer, and whether answers agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from arms import Arm
from turns import Measurement, Turn

Figure = dict[str, float]  # median, min, max over repeats


def figures_of(arm: Arm, rows: int, turns: Sequence[Turn]) -> dict[str, Any]:
    """Return the figures of one arm with `rows` prompts at once. turns: its own with so many.

    decode: tokens per second from when every answer of a group had begun to the last token, over all groups.
    whole: tokens per second of whole answers, prompt included. prompt: prompt tokens per second until then.
    """
    repeats = [[turn for turn in turns if turn.repeat == repeat] for repeat in sorted({turn.repeat for turn in turns})]
    return {
        "arm": arm.name,
        "engine": arm.engine,
        "precision": arm.precision,
        "rows": rows,
        "decode_tokens_per_second": _spread([_decode(repeat) for repeat in repeats]),
        "whole_tokens_per_second": _spread([_whole(repeat) for repeat in repeats]),
        "prompt_tokens_per_second": _spread([_prompt(repeat) for repeat in repeats]),
        "decode_by_repeat": [_decode(repeat) for repeat in repeats],
        "whole_by_repeat": [_whole(repeat) for repeat in repeats],
    }


def table_of(arms: Sequence[Arm], found: Measurement, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Return the figures of all arms that have some, in their order, and beside them their ratio to the best peer."""
    lines = []
    for number in rows:
        part = []
        for arm in arms:
            own = [turn for turn in found.turns if turn.arm == arm.name and turn.rows == number]
            if own and (arm.name, number) not in found.missing:
                part.append(figures_of(arm, number, own))
        lines += [{**line, "over_best_peer": _over_best_peer(line, part)} for line in part]
    return lines


def _over_best_peer(line: Mapping[str, Any], part: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the ratios to the peer with the most tokens per second at the same precision, repeat by repeat."""
    peers = [other for other in part if other["engine"] != "paradraft" and other["precision"] == line["precision"]]
    if line["engine"] != "paradraft" or not peers:
        return None
    found: dict[str, Any] = {}
    for what in ("decode", "whole"):
        best = max(peers, key=lambda other: other[f"{what}_tokens_per_second"]["median"])
        if not all(best[f"{what}_by_repeat"]):
            return None
        pairs = zip(line[f"{what}_by_repeat"], best[f"{what}_by_repeat"], strict=True)
        found[what] = {"peer": best["arm"], **_spread([ours / theirs for ours, theirs in pairs])}
    return found


def _decode(turns: Sequence[Turn]) -> float:
    """Return 0.0 for an engine that hands over all tokens at once: its decoding cannot be told from the prompt."""
    seconds = sum(turn.last - turn.first for turn in turns)
    return sum(turn.tokens_after_first for turn in turns) / seconds if seconds else 0.0


def _whole(turns: Sequence[Turn]) -> float:
    return sum(len(row) for turn in turns for row in turn.tokens) / sum(turn.last for turn in turns)


def _prompt(turns: Sequence[Turn]) -> float:
    return sum(turn.prompt_tokens for turn in turns) / sum(turn.first for turn in turns)


def _spread(values: Sequence[float]) -> Figure:
    return {"median": round(median(values), 3), "min": round(min(values), 3), "max": round(max(values), 3)}


def answers_of(arm: str, found: Measurement) -> list[tuple[int, ...]]:
    """Return an arm's answers to the prompts one by one, of the first repeat."""
    own = [turn for turn in found.turns if turn.arm == arm and turn.rows == 1 and turn.repeat == 0]
    return [turn.tokens[0] for turn in sorted(own, key=lambda turn: turn.group)]


def same_on_repeat(arm: str, found: Measurement) -> bool:
    """Whether every answer of an arm, one by one, came out the same in all repeats."""
    seen: dict[int, set[tuple[tuple[int, ...], ...]]] = {}
    for turn in found.turns:
        if turn.arm == arm and turn.rows == 1:
            seen.setdefault(turn.group, set()).add(turn.tokens)
    return all(len(answers) == 1 for answers in seen.values())
