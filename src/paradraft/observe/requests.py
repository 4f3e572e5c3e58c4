"""What requests lived through, counted as they pass. Not safe for several threads: its owner sees to that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from paradraft.core.events import ChoiceTimes, GenerationStats, TokenEvent
from paradraft.core.records import Origin
from paradraft.core.requests import Request
from paradraft.core.spread import SpreadMeter
from paradraft.observe.bounds import CHOICES, REQUEST_SECONDS, SHARES, TOKEN_SECONDS, token_bounds
from paradraft.observe.labels import BoundedLabels, plain_label
from paradraft.observe.window import AcceptanceWindow

MAX_OPEN = 65_536  # requests; were the last event of some never told, their memory would stay bounded
MAX_REASONS = 32  # of refusals


@dataclass(slots=True)
class ClassTally:
    """A class of prompts. Tokens and drafts are those of choices that ended, so that they belong together."""

    requests: int = 0
    drafted: int = 0  # draft tokens that were verified
    accepted: int = 0  # of these
    refused: int = 0  # drafts of which a walk found no node to go on with
    window: AcceptanceWindow = field(default_factory=AcceptanceWindow)


@dataclass(slots=True)
class _Open:
    """A request on its way."""

    arrived: float
    prompt_len: int
    num_left: int  # choices without their last event
    kind: ClassTally
    longest: int = 0  # tokens of its longest choice that ended
    last: dict[int, float] = field(default_factory=dict)  # when each choice last got tokens
    lengths: dict[int, int] = field(default_factory=dict)  # tokens of each choice


class RequestTallies:
    """Counts and histograms of requests; times are those of the caller's clock."""

    def __init__(self, *, longest: int, max_classes: int) -> None:
        """Count requests of rows of at most `longest` tokens, and at most max_classes classes of prompts apart."""
        tokens = token_bounds(longest)
        self.first_token = SpreadMeter(REQUEST_SECONDS)
        self.between_tokens = SpreadMeter(TOKEN_SECONDS)
        self.per_token = SpreadMeter(TOKEN_SECONDS)
        self.whole = SpreadMeter(REQUEST_SECONDS)
        self.queued = SpreadMeter(REQUEST_SECONDS)
        self.inference = SpreadMeter(REQUEST_SECONDS)
        self.prefill = SpreadMeter(REQUEST_SECONDS)
        self.decode = SpreadMeter(REQUEST_SECONDS)
        self.prompt_tokens = SpreadMeter(tokens)
        self.new_tokens = SpreadMeter(tokens)
        self.longest_tokens = SpreadMeter(tokens)
        self.max_tokens = SpreadMeter(tokens)
        self.choices = SpreadMeter(CHOICES)
        self.acceptance = SpreadMeter(SHARES)
        self.path_acceptance = SpreadMeter(SHARES)
        self.ended: Counter[str] = Counter()  # choices, by finish reason
        self.refusals: Counter[tuple[str, str]] = Counter()  # by status and reason
        self.window = AcceptanceWindow()
        self.classes: dict[str, ClassTally] = {}
        self._labels = BoundedLabels(max_classes)
        self._reasons = BoundedLabels(MAX_REASONS)
        self._open: dict[str, _Open] = {}

    @property
    def num_open(self) -> int:
        """Return the number of requests on their way."""
        return len(self._open)

    def arrive(self, request: Request, now: float) -> None:
        """Count a request that begins."""
        params = request.params
        kind = self.classes.setdefault(self._labels.value_of(request.label), ClassTally())
        kind.requests += 1
        self.choices.add(params.n)
        self.max_tokens.add(params.max_tokens)
        self._open[request.request_id] = _Open(now, len(request.prompt), params.n, kind)
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]

    def tell(self, events: Sequence[TokenEvent], now: float) -> None:
        """Count what a step told; events of requests that never arrived are passed over."""
        for event in events:
            opened = self._open.get(event.request_id)
            if opened is None:
                continue
            if event.token_ids:
                self._take_tokens(opened, event, now)
            if event.finish_reason is not None:
                self._end(opened, event, now)

    def refuse(self, status: int, reason: str) -> None:
        """Count a request that was not taken."""
        self.refusals[plain_label(str(status)), self._reasons.value_of(reason)] += 1

    def _take_tokens(self, opened: _Open, event: TokenEvent, now: float) -> None:
        last = opened.last.get(event.index)
        if last is None:
            self.first_token.add(now - opened.arrived)
        else:
            self.between_tokens.add(now - last)
        opened.last[event.index] = now
        opened.lengths[event.index] = opened.lengths.get(event.index, 0) + len(event.token_ids)
        accepted = event.origins.count(Origin.DRAFTED)
        refused = int(event.origins[-1] is Origin.RECOVERED)
        if accepted or refused:
            opened.kind.window.note(accepted, refused, now)
            self.window.note(accepted, refused, now)

    def _end(self, opened: _Open, event: TokenEvent, now: float) -> None:
        num_tokens = opened.lengths.get(event.index, 0)
        self.ended[str(event.finish_reason)] += 1
        self.whole.add(now - opened.arrived)
        self.prompt_tokens.add(opened.prompt_len)
        self.new_tokens.add(num_tokens)
        if event.times is not None:
            self._add_times(event.times, num_tokens)
        if event.stats is not None:
            self._add_acceptance(event.stats, opened.kind)
        opened.longest = max(opened.longest, num_tokens)
        opened.num_left -= 1
        if not opened.num_left:
            self.longest_tokens.add(opened.longest)
            del self._open[event.request_id]

    def _add_times(self, times: ChoiceTimes, num_tokens: int) -> None:
        self.queued.add(times.queued)
        if times.prefill is None or times.decode is None:
            return
        self.prefill.add(times.prefill)
        self.decode.add(times.decode)
        self.inference.add(times.prefill + times.decode)
        if num_tokens > 1:
            self.per_token.add(times.decode / (num_tokens - 1))

    def _add_acceptance(self, stats: GenerationStats, kind: ClassTally) -> None:
        kind.drafted += stats.drafted
        kind.accepted += stats.accepted
        kind.refused += sum(stats.refused_by_depth)
        if stats.drafted:
            self.acceptance.add(stats.acceptance_rate)
            self.path_acceptance.add(stats.path_acceptance_rate)
