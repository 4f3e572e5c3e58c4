"""Counting: what speculation did for one choice, and for the engine as a whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from paradraft.core.events import GenerationStats
from paradraft.core.records import Hindrance
from paradraft.core.spread import SpreadMeter

# Bounds of what is spread: seconds of a verb or step, tokens of a step.
_SHORT = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 7.5e-3)
SECONDS = (*_SHORT, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """What one scored pass did for one row."""

    node_depths: tuple[int, ...]  # depth of each node
    node_sources: tuple[int, ...]  # bit mask of each node
    path: tuple[int, ...]  # accepted nodes
    num_kept: int  # tokens that went into the answer
    is_counted: bool  # a decoding round that no stop or limit cut short
    is_refused: bool = False  # the walk ended at a place with drafts, none of which was right

    @property
    def num_levels(self) -> int:
        """Return the depth of the proposal."""
        return max(self.node_depths, default=0)

    @property
    def num_dropped(self) -> int:
        """Return the accepted nodes that came behind a stop or a limit."""
        return max(0, len(self.path) - self.num_kept)


@dataclass(kw_only=True, slots=True)
class Admissions:
    """What became of choices on their way into rows, all together. Written by the rows alone."""

    prompt_positions: int = 0  # of choices when they were first admitted
    cached_positions: int = 0  # of these, found in the prefix cache
    recomputed: int = 0  # accepted drafts that a preemption lost
    preemptions: int = 0


class Tally:
    """Running counts; `snapshot` freezes them."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(
            ("passes", "rounds", "round_tokens", "drafted", "accepted", "dropped", "recomputed", "preemptions"), 0
        )
        self._cached_prompt_tokens: int | None = None
        # Histograms, so that a round costs four increments: the sums are formed by `snapshot`.
        self._drafted_levels: Counter[int] = Counter()
        self._accepted_levels: Counter[int] = Counter()
        self._refused_levels: Counter[int] = Counter()
        self._drafted_masks: Counter[int] = Counter()
        self._accepted_masks: Counter[int] = Counter()

    def add_round(self, done: Round) -> None:
        """Count a scored pass of a row."""
        counts = self._counts
        counts["passes"] += 1
        if done.is_counted:
            counts["rounds"] += 1
            counts["round_tokens"] += done.num_kept
        if not done.node_depths:
            return
        counts["drafted"] += len(done.node_depths)
        counts["accepted"] += len(done.path)
        counts["dropped"] += done.num_dropped
        self._drafted_levels[done.num_levels] += 1
        self._accepted_levels[len(done.path)] += 1
        if done.is_refused:
            self._refused_levels[len(done.path)] += 1
        # A loop, because Counter.update takes longer for a handful.
        for mask in done.node_sources:
            self._drafted_masks[mask] += 1
        for node in done.path:
            self._accepted_masks[done.node_sources[node]] += 1

    def add_preemption(self) -> None:
        """Count one loss of the row's pages."""
        self._counts["preemptions"] += 1

    def add_admission(self, *, cached: int, recomputed: int) -> None:
        """Count what an admission found in the cache, and accepted drafts that must be computed again."""
        if self._cached_prompt_tokens is None:
            self._cached_prompt_tokens = cached
        self._counts["recomputed"] += recomputed

    def snapshot(self) -> GenerationStats:
        """Return the counts so far."""
        deepest = 1 + max(self._refused_levels, default=-1)
        return GenerationStats(
            **self._counts,
            drafted_by_depth=_by_depth(self._drafted_levels),
            accepted_by_depth=_by_depth(self._accepted_levels),
            refused_by_depth=tuple([self._refused_levels[depth] for depth in range(deepest)]),
            drafted_by_source=_by_source(self._drafted_masks),
            accepted_by_source=_by_source(self._accepted_masks),
            cached_prompt_tokens=self._cached_prompt_tokens or 0,
        )


@dataclass(kw_only=True, slots=True)
class Totals:
    """What the engine did since it started. Written by the engine alone."""

    steps: int = 0
    committed: int = 0
    finished: int = 0
    failed: int = 0
    cache_reuse_ratio: float = 0.0  # of the last step: positions read from shared pages over all positions read
    tally: Tally = field(default_factory=Tally)  # all rows together
    times: dict[str, SpreadMeter] = field(default_factory=dict)  # seconds of a step, by verb
    drafting: SpreadMeter = field(default_factory=lambda: SpreadMeter(SECONDS))  # proposing where a row may draft
    step_tokens: SpreadMeter = field(default_factory=lambda: SpreadMeter(TOKENS))  # prompt tokens fed, and new ones
    passes: dict[int, list[float]] = field(default_factory=dict)  # tokens fed -> [passes, seconds]
    gammas: Counter[int] = field(default_factory=Counter)  # depth planned for a decoding row
    hindrances: Counter[Hindrance] = field(default_factory=Counter)  # of decoding rows without a draft
    decode_seconds: float = 0.0  # of steps without prompts, once the price of a pass without drafts is known
    plain_seconds: float = 0.0  # that the tokens of those steps would have taken in passes without drafts

    @property
    def seconds(self) -> dict[str, float]:
        """Return the sum of the seconds by verb."""
        return {verb: meter.total for verb, meter in self.times.items()}

    def add_seconds(self, verb: str, seconds: float) -> None:
        """Add to the time of a verb."""
        meter = self.times.get(verb)
        if meter is None:
            meter = self.times[verb] = SpreadMeter(SECONDS)
        meter.add(seconds)

    def add_decoding(self, *, tokens: int, rows: int, seconds: float, plain_pass: float) -> None:
        """Count a step without prompts; plain_pass is what its rows' pass takes without drafts."""
        self.decode_seconds += seconds
        self.plain_seconds += plain_pass * tokens / rows

    def add_pass(self, num_tokens: int, seconds: float) -> None:
        """Count a pass over num_tokens tokens."""
        entry = self.passes.setdefault(num_tokens, [0.0, 0.0])
        entry[0] += 1
        entry[1] += seconds


def _by_depth(levels: Counter[int]) -> tuple[int, ...]:
    """Return how many rounds reached each depth; by depth a tree counts once."""
    deepest = max(levels, default=0)
    return tuple(sum(times for level, times in levels.items() if level > depth) for depth in range(deepest))


def _by_source(masks: Counter[int]) -> tuple[int, ...]:
    """Return how many nodes carry each source's bit."""
    bits = max((mask.bit_length() for mask in masks), default=0)
    return tuple(sum(times for mask, times in masks.items() if mask >> bit & 1) for bit in range(bits))
