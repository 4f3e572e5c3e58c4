"""`paradraft generate`."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from paradraft.app.config import Config
from paradraft.cli.colours import paint
from paradraft.core.errors import ModelError
from paradraft.core.records import FinishReason, Origin
from paradraft.core.sampling import SamplingParams
from support.fake_llm import FakeLLM


def test_the_answer_is_the_only_thing_on_standard_output(run, opened):
    result = run("generate", "Hi", "--max-tokens", "11")
    assert result.exit_code == 0
    assert result.stdout == "Hello world\n"
    assert "11 tokens in" in result.stderr
    assert "tau 2.00" in result.stderr
    assert opened[0].is_closed


def test_the_prompt_goes_through_the_chat_template(run, opened):
    run("generate", "Hi", "--system", "Be brief.")
    [prompt], _ = opened[0].asked[0]
    assert bytes(prompt) == b"system: Be brief.\nuser: Hi\nassistant: "


def test_a_raw_prompt_is_taken_as_it_stands(run, opened):
    run("generate", "Hi", "--raw")
    assert bytes(opened[0].asked[0][0][0]) == b"Hi"


def test_the_prompt_can_come_from_standard_input(run, opened):
    assert run("generate", "--raw", text="From a pipe\n").exit_code == 0
    assert bytes(opened[0].asked[0][0][0]) == b"From a pipe"


def test_an_empty_prompt_is_refused(run, opened):
    result = run("generate", text="")
    assert result.exit_code == 2
    assert "The prompt is empty." in result.stderr
    assert opened == []


def test_options_reach_the_engine_and_the_request(run, opened):
    run(
        "generate", "Hi", "--model", "m", "--drafter", "ngram", "--rule", "block", "--gamma", "3", "--dtype", "bf16",
        "--temperature", "0.7", "--seed", "5", "--max-tokens", "9", "--set", "top_p=0.9", "--set", 'stop=["END"]',
        "--set", "max_rows=2",
    )  # fmt: skip
    config = opened[0].config
    assert (config.model, config.drafter, config.rule, config.gamma, config.dtype, config.max_rows) == (
        "m", "ngram", "block", 3, "bf16", 2,
    )  # fmt: skip
    [params] = opened[0].asked[0][1]
    assert (params.temperature, params.seed, params.max_tokens, params.top_p, params.stop) == (0.7, 5, 9, 0.9, ("END",))


def test_colour_codes_appear_only_on_terminals(run, opened):
    assert "\x1b" not in run("generate", "Hi", "--colour").stdout


def test_colour_paints_accepted_drafts(run, opened, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    result = run("generate", "Hi", "--colour", "--max-tokens", "2")
    assert "\x1b[1;32mH\x1b[0m" in result.stdout
    assert "drafted and accepted" in result.stderr


def test_text_that_an_abort_released_without_a_token_is_shown_without_colour():
    text = paint(["a", "b", "rest"], [Origin.DRAFTED, Origin.BONUS])
    assert text.plain == "abrest"
    assert [str(span.style) for span in text.spans] == ["bold green", "cyan"]


def test_json_holds_tokens_origins_and_counts(run, opened):
    answer = json.loads(run("generate", "Hi", "--json", "--max-tokens", "4").stdout)
    [choice] = answer["choices"]
    assert choice["text"] == "Hell"
    assert choice["token_ids"] == [72, 101, 108, 108]
    assert choice["origins"] == ["drafted", "plain", "drafted", "plain"]
    assert choice["finish_reason"] == "length"
    assert (choice["tau"], choice["stats"]["drafted"]) == (2.0, 4)


def test_several_choices_are_printed_one_after_the_other(run, opened, monkeypatch):
    result = run("generate", "Hi", "--set", "n=2", "--max-tokens", "5")
    assert result.stdout == "Hello\n"
    assert "choice 1 of 2, ended by length" in result.stderr


@pytest.mark.parametrize("form", [(), ("--json",), ("--set", "n=2")])
def test_an_answer_that_failed_is_told_by_the_exit_status(run, opened, monkeypatch, form):
    def fail(self, prompt, params):
        return replace(good, choices=(replace(good.choices[0], error="no numbers", finish_reason=FinishReason.ERROR),))

    good = FakeLLM(Config())._result([1], SamplingParams(max_tokens=2))
    monkeypatch.setattr(FakeLLM, "_result", fail)
    result = run("generate", "Hi", *form)
    assert result.exit_code == 1
    assert "no numbers" in result.output


def test_markup_in_an_answer_is_text(run, opened, monkeypatch):
    monkeypatch.setattr("support.fake_llm.ANSWER", "[bold]x[/]")
    assert run("generate", "Hi", "--max-tokens", "10").stdout == "[bold]x[/]\n"


def test_an_error_is_one_clear_message_without_traceback(run, monkeypatch):
    def fail(config):
        raise ModelError(f"{config.model!r} is no model.", remedy="Use a folder.")

    monkeypatch.setattr("paradraft.cli.opening._load", fail)
    result = run("generate", "Hi", "--model", "nowhere")
    assert result.exit_code == 2
    assert result.stderr == "paradraft: 'nowhere' is no model. Use a folder.\n"


def test_an_interrupt_ends_cleanly(run, monkeypatch):
    def interrupt(config):
        raise KeyboardInterrupt

    monkeypatch.setattr("paradraft.cli.opening._load", interrupt)
    result = run("generate", "Hi", "--model", "m")
    assert result.exit_code == 130
    assert "Traceback" not in result.stderr
    assert "stopped" in result.stderr
