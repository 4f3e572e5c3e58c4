"""When tokens are sent, by a clock that the test moves."""

from __future__ import annotations

import pytest

from paradraft.core.errors import ConfigError
from paradraft.core.events import GenerationStats, TokenEvent
from paradraft.core.records import FinishReason, Origin
from paradraft.server.answers.frames import padded
from paradraft.server.options import ServerOptions
from paradraft.server.smoothing import Pacer, Rhythm, Spread, Straight, pacer_of


def event(*tokens: int, ends: bool = False) -> TokenEvent:
    return TokenEvent(
        request_id="x",
        index=0,
        token_ids=tokens,
        origins=(Origin.DRAFTED,) * len(tokens),
        pieces=tuple(str(token) for token in tokens),
        finish_reason=FinishReason.LENGTH if ends else None,
        stats=GenerationStats() if ends else None,
    )


def play(pacer: Pacer, coming: list[tuple[float, TokenEvent]], *, until: float) -> list[tuple[float, int]]:
    """Let events come at their times and return when each token was sent, in milliseconds; wakes as it is told to."""
    sent: list[tuple[float, int]] = []
    left = list(coming)
    while True:
        wakes_at = pacer.wakes_at()
        times = [time for time in (wakes_at, left[0][0] if left else None) if time is not None]
        if not times or min(times) > until:
            return sent
        now = min(times)
        pacer.take([(0, left.pop(0)[1])] if left and left[0][0] == now else [], now)
        for _, out in pacer.due(now) or ():
            sent += [(round(now * 1000, 3), token) for token in out.token_ids]


BURSTS = [(0.0, event(1)), (0.040, event(2, 3, 4, 5)), (0.080, event(6, 7)), (0.120, event(8, 9, 10, 11, ends=True))]


def test_tokens_are_sent_as_they_come_unless_they_are_smoothed() -> None:
    assert [time for time, _ in play(Straight(), BURSTS, until=1)] == [0, 40, 40, 40, 40, 80, 80, 120, 120, 120, 120]


def test_a_burst_is_spread_over_the_time_until_the_next_one() -> None:
    sent = play(Spread(0.1, 0.0), BURSTS, until=1)
    assert [token for _, token in sent] == list(range(1, 12))
    assert [time for time, _ in sent] == [0, 40, 50, 60, 70, 80, 100, 120, 120, 120, 120]


def test_no_token_waits_longer_than_the_bound() -> None:
    slow = [(0.0, event(1)), (1.0, event(2, 3, 4, 5)), (3.0, event(6, ends=True))]
    sent = {token: time for time, token in play(Spread(0.02, 0.0), slow, until=5)}
    assert max(sent[token] for token in (2, 3, 4, 5)) <= 1000 + 20
    assert sent[3] > 1000


def test_a_burst_that_comes_early_takes_what_waits_along_in_order() -> None:
    early = [(0.0, event(1)), (0.1, event(2, 3, 4, 5)), (0.11, event(6, 7)), (0.5, event(8, ends=True))]
    sent = play(Spread(0.1, 0.0), early, until=1)
    assert [token for _, token in sent] == list(range(1, 9))
    assert sent == sorted(sent)


def test_nothing_waits_once_the_answer_has_ended() -> None:
    sent = play(Spread(10.0, 0.0), [(0.0, event(1)), (5.0, event(2, 3)), (5.5, event(4, 5, ends=True))], until=99)
    assert [time for time, token in sent if token > 2] == [5500, 5500, 5500]


def test_the_end_of_a_choice_comes_with_its_last_token_only() -> None:
    pacer = Spread(1.0, 0.0)
    pacer.take([(0, event(1))], 0.0)
    pacer.take([(0, event(2, 3, ends=True))], 0.5)
    [(_, out)] = pacer.due(0.5) or []
    assert (out.token_ids, out.finish_reason) == ((1, 2, 3), FinishReason.LENGTH)
    assert out.stats is not None


def test_a_fixed_beat_does_not_follow_from_what_comes() -> None:
    def beats(coming: list[tuple[float, TokenEvent]]) -> list[float]:
        pacer = Rhythm(0.05, 0.0)
        found = []
        for now in sorted({time for time, _ in coming} | {step / 100 for step in range(1, 30)}):
            pacer.take([(0, each) for time, each in coming if time == now], now)
            found += [now] * (pacer.due(now) is not None)
        return found

    assert beats(BURSTS) == beats([(0.013, event(1, 2, 3, 4, 5, 6))]) == beats([])
    sent = play(Rhythm(0.05, 0.0), BURSTS, until=0.3)
    assert [time for time, _ in sent] == [50] * 5 + [100] * 2 + [150] * 4


def test_a_beat_that_was_missed_does_not_shift_the_others() -> None:
    pacer = Rhythm(0.05, 0.0)
    assert pacer.due(0.17) == []
    assert pacer.wakes_at() == pytest.approx(0.2)


@pytest.mark.parametrize(
    "frames", [b"", b"data: {}\n\n", b"x" * 1024, b"x" * 1021, b"x" * 1022, b"x" * 1023, b"x" * 2000]
)
def test_packets_are_filled_up_with_a_comment(frames: bytes) -> None:
    filled = padded(frames, 1024)
    assert len(filled) % 1024 == 0 < len(filled)
    assert filled.endswith(frames)
    rest = filled.removesuffix(frames)
    assert not rest or (rest.startswith(b":") and rest.endswith(b"\n\n") and not rest[1:-2].strip(b" "))
    assert padded(b"data: {}\n\n", 1) == b"data: {}\n\n"


def test_the_operator_chooses_the_way() -> None:
    assert isinstance(pacer_of(ServerOptions(), 0.0), Straight)
    assert isinstance(pacer_of(ServerOptions(smoothing_ms=20), 0.0), Spread)
    assert isinstance(pacer_of(ServerOptions(smoothing="rhythm", smoothing_ms=20), 0.0), Rhythm)
    with pytest.raises(ConfigError, match="smoothing='jazz'"):
        ServerOptions(smoothing="jazz")
