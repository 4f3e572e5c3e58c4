"""Characters of several bytes and several tokens, wherever drafts, steps and limits cut them."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray
from paradraft.core.records import FinishReason
from paradraft.core.sampling import SamplingParams
from support.engines import build_engine, ids_of, request, run, text_of
from support.fake_drafters import HalfRightDrafter, OracleDrafter

TEXT = "a🙂漢字 é🎉b"
BYTES = TEXT.encode()


def spelling(prefix: tuple[int, ...]) -> FloatArray:
    """Greedy decoding writes TEXT over and over."""
    logits = np.zeros(256, dtype=np.float32)
    logits[BYTES[(len(prefix) - 1) % len(BYTES)]] = 9.0
    return logits


@pytest.mark.parametrize("gamma", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("is_always_right", [True, False])
def test_no_event_holds_half_a_character(gamma: int, is_always_right: bool) -> None:
    drafter = OracleDrafter(spelling) if is_always_right else HalfRightDrafter(spelling, 256)
    engine = build_engine(drafter, law=spelling, vocab_size=256, gamma=gamma, nodes=gamma)
    params = SamplingParams(temperature=0.0, max_tokens=2 * len(BYTES))
    events = run(engine, request("a", [33], params))["a", 0]
    assert text_of(events) == TEXT * 2
    assert not [event for event in events if "\ufffd" in event.text]
    for event in events:
        assert event.text == "".join(event.pieces)


@pytest.mark.parametrize("limit", range(1, len(BYTES) + 1))
def test_only_a_true_cut_gives_a_replacement_character_and_at_most_one(limit: int) -> None:
    engine = build_engine(OracleDrafter(spelling), law=spelling, vocab_size=256, gamma=5, nodes=5)
    params = SamplingParams(temperature=0.0, max_tokens=limit)
    events = run(engine, request("a", [33], params))["a", 0]
    assert text_of(events) == BYTES[:limit].decode("utf-8", "replace")
    assert text_of(events).count("\ufffd") <= 1


@pytest.mark.parametrize("stop", ["漢", "字 é", "🎉b", "🙂"])
@pytest.mark.parametrize("gamma", [0, 3, 12])
def test_a_stop_text_of_several_bytes_is_found_and_none_of_it_is_shown(stop: str, gamma: int) -> None:
    engine = build_engine(OracleDrafter(spelling), law=spelling, vocab_size=256, gamma=gamma, nodes=gamma)
    params = SamplingParams(temperature=0.0, max_tokens=60, stop=(stop,))
    events = run(engine, request("a", [33], params))["a", 0]
    assert text_of(events) == TEXT[: TEXT.index(stop)]
    assert events[-1].stop_reason == stop


def test_an_aborted_answer_tells_what_it_still_held_back() -> None:
    engine = build_engine(law=spelling, vocab_size=256)
    engine.add(request("a", [33], SamplingParams(temperature=0.0, max_tokens=60, stop=("a🙂x",))))
    told = [engine.step()[0] for _ in range(5)]
    assert text_of(told) == ""
    (last,) = engine.abort("a")
    assert last.text == "a🙂"
    assert last.finish_reason is FinishReason.ABORT
    assert ids_of(told) == list("a🙂".encode())
