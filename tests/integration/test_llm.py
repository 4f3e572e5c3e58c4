"""The library as its users call it, on a tiny network from a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from paradraft import LLM, SamplingParams
from paradraft.core.errors import ConfigError, ModelError, RequestRefused
from paradraft.core.records import FinishReason, Origin
from paradraft.models.tiny import write_tiny_model

GREEDY = SamplingParams(temperature=0.0, max_tokens=20)
PROMPTS = ["one two one two one", "a", "Grüße, 漢字 🙂"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"), "llama", 1)


@pytest.fixture(scope="module")
def llm(folder: Path) -> Iterator[LLM]:
    with LLM(str(folder), dtype="fp32", kv_tokens=4096, seed=5) as engine:
        yield engine


def test_prompts_generate_together_as_they_do_alone(llm: LLM) -> None:
    together = llm.generate(PROMPTS, GREEDY)
    alone = [llm.generate(prompt, GREEDY)[0] for prompt in PROMPTS]
    assert [result.choices[0].token_ids for result in together] == [result.choices[0].token_ids for result in alone]
    assert [result.prompt for result in together] == PROMPTS


def test_speculation_off_gives_the_same_answer(llm: LLM) -> None:
    for temperature in (0.0, 0.8):
        drafted = llm.generate(PROMPTS, SamplingParams(temperature=temperature, max_tokens=30))
        plain = llm.generate(PROMPTS, SamplingParams(temperature=temperature, max_tokens=30, speculate=False))
        assert [result.choices[0].token_ids for result in drafted] == [result.choices[0].token_ids for result in plain]
        assert all(set(result.choices[0].origins) == {Origin.PLAIN} for result in plain)


def test_pieces_join_to_the_text_and_match_the_tokens(llm: LLM) -> None:
    for result in llm.generate(PROMPTS, GREEDY):
        choice = result.choices[0]
        assert len(choice.pieces) == len(choice.origins) == len(choice.token_ids)
        assert choice.text == llm.tokenizer.decode(list(choice.token_ids))


def test_a_stream_tells_what_generate_returns(llm: LLM) -> None:
    events = list(llm.stream(PROMPTS[0], GREEDY))
    result = llm.generate(PROMPTS[0], GREEDY)[0]
    assert "".join(event.text for event in events) == result.text
    assert [event.finish_reason for event in events if event.finish_reason] == [result.choices[0].finish_reason]


def test_two_streams_advance_together_and_keep_their_events(llm: LLM) -> None:
    first, second = llm.stream(PROMPTS[0], GREEDY), llm.stream(PROMPTS[2], GREEDY)
    texts = ["", ""]
    streams = {0: first, 1: second}
    while streams:
        for at, stream in list(streams.items()):
            event = next(stream, None)
            if event is None:
                del streams[at]
            else:
                texts[at] += event.text
    assert texts == [llm.generate(PROMPTS[at], GREEDY)[0].text for at in (0, 2)]


def test_a_stream_closed_early_frees_its_row(llm: LLM) -> None:
    stream = llm.stream(PROMPTS[0], GREEDY)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert not llm.engine.has_work
    assert llm.engine.pages.counts().held == 0


def test_chat_uses_the_models_template(llm: LLM) -> None:
    messages = [{"role": "user", "content": "hello"}]
    result = llm.chat(messages, GREEDY)
    assert list(result.prompt_token_ids) == llm.encode_chat(messages)
    assert result.choices[0].finish_reason in (FinishReason.STOP, FinishReason.LENGTH)


def test_one_bad_prompt_refuses_the_call_and_harms_nothing(llm: LLM) -> None:
    with pytest.raises(RequestRefused, match="513"):
        llm.generate(["fine", "x" * 513], GREEDY)
    assert not llm.engine.has_work
    assert llm.generate("fine", GREEDY)[0].choices[0].token_ids


def test_an_interrupted_call_leaves_nothing_behind(llm: LLM) -> None:
    def interrupt(event: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        llm.generate(PROMPTS, GREEDY, on_event=interrupt)
    assert not llm.engine.has_work
    assert llm.engine.pages.counts().held == 0


def test_parameters_may_differ_by_prompt_but_not_in_number(llm: LLM) -> None:
    short = SamplingParams(temperature=0.0, max_tokens=2)
    lengths = [len(result.choices[0].token_ids) for result in llm.generate(PROMPTS[:2], [short, GREEDY])]
    assert lengths[0] <= 2
    with pytest.raises(ConfigError, match="2 sampling parameters for 3"):
        llm.generate(PROMPTS, [short, GREEDY])


def test_an_unset_seed_is_drawn_and_reported(folder: Path) -> None:
    with LLM(str(folder), dtype="fp32", kv_tokens=1024) as fresh:
        sampled = SamplingParams(temperature=1.0, max_tokens=12)
        first, second = (fresh.generate("once", sampled)[0].choices[0] for _ in range(2))
        assert first.seed != second.seed
        again = fresh.generate("once", SamplingParams(temperature=1.0, max_tokens=12, seed=first.seed))[0].choices[0]
        assert again.token_ids == first.token_ids


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"drafte": "ngram"}, "Did you mean drafter"),
        ({"rule": "magic"}, "magic"),
        ({"max_model_len": 100_000}, "100000"),
        ({"dtype": "fp8"}, "fp8"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(folder: Path, options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        LLM(str(folder), **options)


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nowhere"):
        LLM(str(tmp_path / "nowhere"))


def test_the_summary_says_what_runs_and_whether_it_is_exact(folder: Path, llm: LLM) -> None:
    assert "rule coupled (exact)" in llm.summary()
    assert "drafter suffix+shared" in llm.summary()
    with LLM(str(folder), dtype="fp32", kv_tokens=1024, rule="typical") as lossy:
        assert "LOSSY" in lossy.summary()


def test_a_greedy_only_rule_refuses_sampled_requests(folder: Path) -> None:
    with LLM(str(folder), dtype="fp32", kv_tokens=1024, rule="greedy") as greedy_only:
        with pytest.raises(RequestRefused, match="temperature"):
            greedy_only.generate("x", SamplingParams(temperature=1.0))
        assert greedy_only.generate("x", GREEDY)[0].choices[0].token_ids
