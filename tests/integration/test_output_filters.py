"""Output filters over HTTP: the same verdicts whoever drafts, and a broken one ends its own request alone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import pytest

from paradraft.core.errors import ConfigError
from paradraft.core.filtering import HOLD, PASS, Action, Filter, FilterFactory, FilterVerdict
from paradraft.core.ports import Drafter
from paradraft.server.options import ServerOptions
from support.engines import build_engine
from support.fake_drafters import FakeDrafter, HalfRightDrafter, OracleDrafter, WrongDrafter
from support.serving import served

ALPHABET = 26
SIZE = 259


def letters(prefix: tuple[int, ...]):
    """A law over small letters that repeats nothing soon."""
    import numpy as np

    logits = np.full(SIZE, -9.0, dtype=np.float32)
    logits[97 + (7 * len(prefix) + sum(prefix)) % ALPHABET] = 9.0
    return logits


DRAFTERS: dict[str, Callable[[], Drafter]] = {
    "none": FakeDrafter,
    "right": lambda: OracleDrafter(letters),
    "half right": lambda: HalfRightDrafter(letters, SIZE),
    "wrong": lambda: WrongDrafter(letters, SIZE),
}
ASK = {"prompt": [104, 105], "max_tokens": 40, "temperature": 0, "logprobs": 1}


def answers(make: FilterFactory | None, drafter: str = "right", **fields) -> tuple[dict, list[dict]]:
    """Return the whole answer, and the chunks of the same one as a stream."""
    engine = build_engine(DRAFTERS[drafter](), law=letters, vocab_size=SIZE)
    with served(engine, make_filter=make) as server:
        whole = server.client.post("/v1/completions", json={**ASK, **fields})
        assert whole.status_code == 200, whole.text
        with server.client.stream("POST", "/v1/completions", json={**ASK, **fields, "stream": True}) as response:
            lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    return whole.json(), [json.loads(line) for line in lines[:-1]]


def plain() -> str:
    return answers(None)[0]["choices"][0]["text"]


def passing() -> Filter:
    return lambda text, is_last: PASS


def shouting() -> Filter:
    """Replaces vowels."""
    return lambda text, is_last: FilterVerdict(Action.REPLACE, text.upper()) if set(text) & set("aeiou") else PASS


def by_fives() -> Filter:
    """Holds back until five characters stand together, then drops those with an x."""

    def look(text: str, is_last: bool) -> FilterVerdict:
        if len(text) < 5 and not is_last:
            return HOLD
        return FilterVerdict(Action.REPLACE, "-") if "x" in text else PASS

    return look


def stopping(at: int) -> FilterFactory:
    def make() -> Filter:
        seen = 0

        def look(text: str, is_last: bool) -> FilterVerdict:
            nonlocal seen
            seen += 1
            return FilterVerdict(Action.STOP, "[cut]") if seen == at else PASS

        return look

    return make


@pytest.mark.parametrize("make", [passing, shouting, by_fives, stopping(11)], ids=["pass", "replace", "hold", "stop"])
def test_a_filter_says_the_same_whoever_drafts(make):
    found = {}
    for drafter in DRAFTERS:
        whole, chunks = answers(make, drafter)
        choice, pieces = whole["choices"][0], [each for chunk in chunks for each in chunk["choices"]]
        assert "".join(piece["text"] for piece in pieces) == choice["text"]
        assert [piece["finish_reason"] for piece in pieces if piece["finish_reason"]] == [choice["finish_reason"]]
        shown = [token for piece in pieces for token in piece["logprobs"]["tokens"]]
        assert shown == choice["logprobs"]["tokens"]
        found[drafter] = (choice["text"], choice["finish_reason"], shown, whole["usage"])
    assert all(each == found["none"] for each in found.values())


def test_a_filter_that_lets_everything_pass_changes_nothing():
    assert answers(passing)[0]["choices"] == answers(None)[0]["choices"]


def test_text_is_replaced_and_its_tokens_are_counted_but_not_told():
    whole, _ = answers(shouting)
    choice = whole["choices"][0]
    assert choice["text"] == "".join(letter.upper() if letter in "aeiou" else letter for letter in plain())
    assert choice["logprobs"]["tokens"] == [letter for letter in plain() if letter not in "aeiou"]
    assert whole["usage"]["completion_tokens"] == 40


def test_a_stop_ends_the_choice_with_its_reason_and_the_tokens_it_took():
    whole, _ = answers(stopping(11))
    choice = whole["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == (plain()[:10] + "[cut]", "content_filter")
    assert choice["logprobs"]["tokens"] == list(plain()[:10])
    assert whole["usage"]["completion_tokens"] == 11


def test_what_was_held_comes_with_the_next_look_and_what_is_held_at_the_end_is_dropped():
    seen: list[tuple[str, bool]] = []

    def make() -> Filter:
        return lambda text, is_last: seen.append((text, is_last)) or HOLD

    whole, _ = answers(make, max_tokens=6)
    assert whole["choices"][0]["text"] == ""
    assert seen[:6] == [(plain()[:count], count == 6) for count in range(1, 7)]


def test_choices_do_not_share_a_filter():
    whole, _ = answers(stopping(5), n=3)
    assert [choice["finish_reason"] for choice in whole["choices"]] == ["content_filter"] * 3
    assert whole["usage"]["completion_tokens"] == 15


STATS = {"speculative": {"stats": True}}


@pytest.mark.parametrize(("drafter", "passes", "accepted"), [("none", 9, 0), ("right", 3, 8), ("wrong", 9, 0)])
def test_a_choice_that_is_stopped_tells_what_was_drafted_for_it_until_then(drafter, passes, accepted):
    whole, chunks = answers(stopping(9), drafter, **STATS, n=2)  # in the middle of an accepted path
    told = whole["metrics"]["speculative_decoding"]
    assert (told["num_passes"], told["num_accepted_draft_tokens"]) == (2 * passes, 2 * accepted)
    assert (told["num_draft_tokens"] > 0) == (drafter != "none")
    assert [chunk["metrics"]["speculative_decoding"] for chunk in chunks if "metrics" in chunk] == [told]


def test_a_stopped_answer_tells_how_much_of_its_prompt_was_cached():
    engine = build_engine(law=letters, vocab_size=SIZE)
    with served(engine, make_filter=stopping(3)) as server:
        asked = {**ASK, "prompt": list(range(1, 60))}
        first, second = (server.client.post("/v1/completions", json=asked).json() for _ in range(2))
    cached = [each["usage"]["prompt_tokens_details"]["cached_tokens"] for each in (first, second)]
    assert cached[0] == 0 < cached[1]


@pytest.mark.parametrize("kind", ["fails", "hangs"])
def test_a_broken_filter_leaves_the_counts_of_its_choice(kind):
    release = threading.Event()
    trouble = {"fails": fails, "hangs": lambda: PASS if release.wait(20) else HOLD}[kind]
    engine = build_engine(DRAFTERS["right"](), law=letters, vocab_size=SIZE)
    options = ServerOptions(filter_seconds=0.2)
    with served(engine, options=options, make_filter=lambda: lambda text, is_last: trouble()) as server:
        asked = {**ASK, **STATS, "stream": True, "stream_options": {"include_usage": True}}
        lines = server.client.post("/v1/completions", json=asked).text.split("\n\n")
        release.set()
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    assert any("error" in chunk for chunk in chunks)
    assert chunks[-1]["metrics"]["speculative_decoding"]["num_passes"] >= 1


def test_the_engine_stops_with_the_filter():
    engine = build_engine(law=letters, vocab_size=SIZE)
    with served(engine, make_filter=stopping(3)) as server:
        server.client.post("/v1/completions", json={**ASK, "max_tokens": 500})
        deadline = time.monotonic() + 5
        while engine.has_work and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not engine.has_work
        assert engine.totals.committed < 500


def picky(trouble: Callable[[], FilterVerdict]) -> FilterFactory:
    """Gets into trouble over a `!`, which only one prompt asks for."""

    def make() -> Filter:
        return lambda text, is_last: trouble() if "!" in text else PASS

    return make


def shouts_or_not(prefix: tuple[int, ...]):
    logits = letters(prefix)
    if prefix[0] == 33:
        logits[33] = 99.0
    return logits


def fails() -> FilterVerdict:
    raise ZeroDivisionError("on purpose")


@pytest.mark.parametrize("kind", ["fails", "hangs", "lies"])
def test_a_broken_filter_ends_its_own_request_alone(kind):
    release = threading.Event()

    def hangs() -> FilterVerdict:
        release.wait(20)
        return PASS

    trouble = {"fails": fails, "hangs": hangs, "lies": lambda: "what?"}[kind]
    engine = build_engine(law=shouts_or_not, vocab_size=SIZE)
    options = ServerOptions(filter_seconds=0.2)
    with served(engine, options=options, make_filter=picky(trouble)) as server:
        begun = time.monotonic()
        bad = server.client.post("/v1/completions", json={**ASK, "prompt": [33, 104]})
        assert time.monotonic() - begun < 15
        assert (bad.status_code, bad.json()["error"]["code"]) == (500, "generation_failed")
        good = server.client.post("/v1/completions", json=ASK)
        assert good.json()["choices"][0]["text"] == plain()
    release.set()


def test_a_server_whose_filters_all_hang_takes_no_more(monkeypatch):
    monkeypatch.setattr("paradraft.server.filtering.MAX_STUCK", 2)
    release = threading.Event()

    def make() -> Filter:
        return lambda text, is_last: PASS if release.wait(20) else HOLD

    engine, options = build_engine(law=letters, vocab_size=SIZE), ServerOptions(filter_seconds=0.05)
    with served(engine, options=options, make_filter=make) as server:

        def status(**fields) -> int:
            return server.client.post("/v1/completions", json={**ASK, **fields}).status_code

        assert [status(), status(), status(), status(stream=True)] == [500, 500, 503, 503]
        release.set()
        time.sleep(0.2)
        assert status() == 200


def test_an_operators_filter_is_found_by_name(tmp_path, monkeypatch):
    from paradraft.app.serving import load_filter

    (tmp_path / "house_rules.py").write_text("def make():\n    return lambda text, is_last: None\nnothing = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert callable(load_filter("house_rules:make")())
    for wrong in ("house_rules", "house_rules:absent", "absent_module:make", "house_rules:nothing", ":make"):
        with pytest.raises(ConfigError, match="output filter"):
            load_filter(wrong)
