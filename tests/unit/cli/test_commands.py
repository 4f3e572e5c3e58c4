"""Help, demo, bench, doctor, compare, exactness and models."""

from __future__ import annotations

import json

import pytest

from paradraft.cli import opening
from paradraft.lab.doctor import facts as doctor_facts
from support.fake_llm import FakeLLM, fake_peer

COMMANDS = [
    [], ["generate"], ["demo"], ["bench"], ["doctor"], ["compare"], ["exactness"],
    ["models"], ["models", "list"], ["models", "pull"], ["models", "path"], ["models", "export"],
    ["drafters"], ["drafters", "show"], ["drafters", "check"], ["drafters", "export"],
]  # fmt: skip


@pytest.fixture
def questions(tmp_path):
    file = tmp_path / "questions.jsonl"
    lines = [{"id": f"q{n}", "category": "ab"[n % 2], "prompt": f"Question {n}?"} for n in range(4)]
    file.write_text("\n".join(map(json.dumps, lines)))
    return str(file)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_help_shows_examples_on_lines_of_their_own(run, command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    name = " ".join(["paradraft", *command])
    examples = result.output.partition("Examples:\n")[2].splitlines()
    assert examples
    assert all("paradraft" in line for line in examples)
    assert any(name in line for line in examples)


def test_no_arguments_show_the_help(run):
    assert "Commands:" in run().output


def test_version(run):
    assert run("--version").output.strip() == "0.1.0"


def test_the_last_lines_of_the_demo_are_the_figures_and_identical_yes(run, opened):
    result = run("demo", "--max-tokens", "20")
    assert result.exit_code == 0, result.output
    last = result.stdout.splitlines()[-5:]
    assert [line.split(":")[0] for line in last] == ["plain", "speculative", "speed-up", "tau", "identical"]
    assert last[-1] == "identical: yes"
    assert opened[0].config.dtype == "fp32"


def test_the_demo_shuts_out_replays_of_its_own_answers(run, opened):
    run("demo", "--max-tokens", "4")
    assert opened[0].config.suffix_shared_tokens == 0
    assert not opened[0].config.prefix_caching


def test_the_demo_says_what_kind_of_prompts_it_uses(run, opened):
    output = run("demo", "--max-tokens", "4").stdout
    for kind in ("rewriting a text", "editing code", "quoting from a text", "repeat much of the prompt"):
        assert kind in output


def test_the_demo_fails_loudly_if_an_answer_differs(run, opened, monkeypatch):
    monkeypatch.setattr(
        FakeLLM, "answer", lambda self, params: (b"abcd" if params.speculate else b"abce")[: params.max_tokens]
    )
    result = run("demo", "--max-tokens", "4")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "identical: NO"


def test_bench_writes_json_and_page_and_prints_the_speedup(run, opened, questions, tmp_path):
    json_file, page = tmp_path / "out.json", tmp_path / "out.html"
    result = run(
        "bench", "--prompts", questions, "--max-tokens", "16", "--repeats", "2", "--concurrency", "1,2",
        "--json", str(json_file), "--html", str(page), "--arms", "plain,fixed,adaptive", "--short", "4",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    report = json.loads(json_file.read_text())
    assert {(arm["name"], arm["concurrency"]) for arm in report["arms"]} == {
        (name, rows) for name in ("plain", "fixed", "adaptive", "control") for rows in (1, 2)
    }
    assert report["provenance"]["model"]["sha256"] == "f" * 64
    assert all(arm["identical_to_plain"] for arm in report["arms"])
    assert "fixed over plain, 1 row:" in result.stdout
    assert "<svg" in page.read_text()


def test_bench_arms_are_the_configurations_they_are_called(run, opened, questions):
    run("bench", "--prompts", questions, "--max-tokens", "4", "--repeats", "1", "--arms", "plain,fixed,adaptive")
    plain, fixed, adaptive = (llm.config for llm in opened)
    assert (plain.drafter, fixed.drafter, adaptive.drafter) == ("none", "merged", "merged")
    assert (fixed.adaptive, adaptive.adaptive) == (False, True)
    assert all(config.suffix_shared_tokens == 0 and not config.prefix_caching for config in (plain, fixed, adaptive))


def test_bench_warns_when_replays_are_let_in(run, opened, questions):
    output = run(
        "bench", "--prompts", questions, "--max-tokens", "4", "--repeats", "1", "--set", "suffix_shared_tokens=1000"
    ).stdout
    assert opened[0].config.suffix_shared_tokens == 1000
    assert "warning: suffix_shared_tokens on: repeats can replay earlier answers." in output


def test_a_gamma_sweep_has_an_arm_for_each_gamma(run, opened, questions, tmp_path):
    file = tmp_path / "out.json"
    run(
        "bench", "--prompts", questions, "--max-tokens", "8", "--repeats", "1", "--sweep-gamma", "1,2,4",
        "--no-control", "--json", str(file),
    )  # fmt: skip
    arms = json.loads(file.read_text())["arms"]
    assert [(arm["name"], arm["gamma"]) for arm in arms] == [
        ("plain", None), ("fixed-1", 1), ("fixed-2", 2), ("fixed-4", 4),
    ]  # fmt: skip
    assert opened[1].config.gamma == 4
    assert {params.gamma for _, group in opened[1].asked for params in group} == {1, 2, 4}


def test_the_peer_gets_the_same_weights_and_is_a_baseline(run, opened, questions, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(opening, "export_folder", lambda model, folder, dtype: written.append(dtype) or folder)
    monkeypatch.setattr(opening, "open_peer", lambda model, dtype: fake_peer())
    file = tmp_path / "out.json"
    result = run(
        "bench",
        "--prompts",
        questions,
        "--max-tokens",
        "8",
        "--repeats",
        "1",
        "--peer",
        "transformers",
        "--json",
        str(file),
    )
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text())
    assert written == ["fp32"]
    assert ("plain", "transformers") in {(entry["arm"], entry["baseline"]) for entry in report["speedups"]}
    assert opened[0].config.model.endswith("smollm2-135m")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--arms", "fixed"], "--arms lacks plain"),
        (["--arms", "plain,magic"], "--arms"),
        (["--concurrency", "x"], "--concurrency"),
        (["--peer", "transformers", "--temperature", "1"], "--peer decodes greedily"),
        (["--set", "gama=1"], "Did you mean gamma?"),
        (["--concurrency", "8"], "concurrency 8 needs as many prompts"),
        (["--max-tokens", "16384"], "Add --set kv_tokens="),
    ],
)
def test_bench_refuses_what_it_cannot_measure(run, opened, questions, arguments, message):
    result = run("bench", "--prompts", questions, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_missing_prompts_are_an_error_before_a_model_is_loaded(run, opened):
    result = run("bench", "--prompts", "no-such-file.jsonl")
    assert result.exit_code == 2
    assert "no-such-file.jsonl" in result.stderr
    assert opened == []


def test_compare_shows_both_models_and_the_thresholds(run, opened):
    result = run("compare", "Hi", "--target", "big", "--drafter", "small", "--max-tokens", "4")
    assert result.exit_code == 0, result.output
    assert [llm.config.model for llm in opened] == ["big", "small"]
    for word in ("Jaccard", "p/q", "promise", "at least 0.45", "at most 0.3", "at most 1.5"):
        assert word in result.stdout


@pytest.mark.parametrize("drafter", ["ngram", "auto", "merged", "table", "early-exit"])
def test_compare_needs_a_drafter_with_probabilities(run, opened, drafter):
    result = run("compare", "Hi", "--drafter", drafter)
    assert result.exit_code == 2
    assert "no probabilities" in result.stderr


def test_exactness_passes_equal_answers_and_prints_a_table(run, opened, questions):
    result = run("exactness", "--quick", "--prompts", questions, "--no-peer", "--drafters", "ngram,self")
    assert result.exit_code == 0, result.output
    assert "0 failed" in result.stdout
    drafters = [llm.config.drafter for llm in opened]
    assert list(dict.fromkeys(drafters)) == ["none", "ngram", "smollm2-135m"]
    assert drafters.count("none") == 1
    assert drafters.count("ngram") == drafters.count("smollm2-135m") > 1  # one for each of its cases
    assert not opened[1].config.adaptive


def test_exactness_fails_on_any_difference(run, opened, questions, monkeypatch):
    monkeypatch.setattr(
        FakeLLM, "answer", lambda self, params: (b"abcd" if params.speculate else b"abce")[: params.max_tokens]
    )
    result = run(
        "exactness", "--quick", "--prompts", questions, "--no-peer", "--drafters", "ngram", "--temperatures", "0"
    )
    assert result.exit_code == 1
    assert "differs at token 3" in result.stdout


def test_exactness_goes_on_from_its_file_and_shows_it(run, opened, questions, tmp_path):
    ask = ["exactness", "--quick", "--prompts", questions, "--no-peer", "--drafters", "ngram,suffix"]
    files = [str(tmp_path / name) for name in ("0.json", "1.json")]
    for part, file in enumerate(files):
        result = run(*ask, "--part", f"{part}/2", "--json", file)
        assert result.exit_code == 0, result.output
    opened.clear()
    assert run(*ask, "--part", "0/2", "--json", files[0]).exit_code == 0
    assert [llm.config.drafter for llm in opened] == ["none"]
    shown = run("exactness", "--show", *files)
    assert shown.exit_code == 0, shown.output
    assert "32 cases, 0 failed" in shown.stdout
    assert "missing" not in shown.stdout


def test_exactness_shows_what_is_missing_and_fails(run, opened, questions, tmp_path):
    file = str(tmp_path / "0.json")
    run("exactness", "--quick", "--prompts", questions, "--no-peer", "--drafters", "ngram", "--json", file,
        "--part", "0/2")  # fmt: skip
    result = run("exactness", "--show", file)
    assert result.exit_code == 1
    assert "9 missing: plain 3, ngram 6" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--show"], "--show needs files"), (["some.json"], "--show"), (["--part", "2/2"], "Part 2 of 2"),
     (["--part", "x"], "--part 'x' is not a share"), (["--show", "absent.json"], "holds no results")],
)  # fmt: skip
def test_exactness_refuses_what_it_cannot_do(run, opened, arguments, message):
    result = run("exactness", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert opened == []


def facts_with(failure: str | None):
    real = doctor_facts.gather_facts
    torch = doctor_facts.TorchFacts(failure=failure, threads=1)
    native = doctor_facts.NativeFacts(instruction_sets=("portable",))
    machine = doctor_facts.read_machine()
    cache = doctor_facts._read_cache()
    assert real
    return doctor_facts.Facts(
        machine=machine, bandwidth=1e10, torch=torch, native=native, cache=cache, has_matplotlib=True
    )


def test_doctor_prints_a_remedy_and_fails_with_a_failing_line(run, monkeypatch):
    monkeypatch.setattr(doctor_facts, "gather_facts", lambda: facts_with("no such module"))
    result = run("doctor")
    assert result.exit_code == 1
    assert "fail  torch" in result.stdout
    assert "Reinstall it" in result.stdout


def test_doctor_json_has_one_object_per_line_of_the_table(run, monkeypatch):
    monkeypatch.setattr(doctor_facts, "gather_facts", lambda: facts_with(None))
    findings = json.loads(run("doctor", "--json").stdout)
    assert {"name", "status", "detail", "remedy"} == set(findings[0])


def test_models_list_names_every_asset(run):
    output = run("models", "list").stdout
    for name in ("smollm2-135m", "mt-bench", "humaneval", "gsm8k-100"):
        assert name in output


def test_models_path_of_an_absent_model_says_how_to_bring_it(run, tmp_path, monkeypatch):
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path))
    result = run("models", "path", "smollm2-135m")
    assert result.exit_code == 2
    assert "paradraft models pull smollm2-135m" in result.stderr


def test_packed_weights_are_listed_and_removed(run, tmp_path, monkeypatch):
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path))
    monkeypatch.setenv("PARADRAFT_PACKED_GB", "2")
    assert "0.00 of 2 GB" in run("models", "packed").stderr
    for name in ("one-int8", "one-bf16", "two-bf16"):
        file = tmp_path / "packed" / f"{name}.packed"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes(3_000_000))
    listed = run("models", "packed").stdout.splitlines()
    assert {line.split()[-1] for line in listed} == {"one-int8", "one-bf16", "two-bf16"}
    assert all(line.split()[:2] == ["3", "MB"] for line in listed)
    assert "one-int8" in run("models", "remove", "one-int8").stdout
    assert "one-int8" not in run("models", "packed").stdout
    assert run("models", "remove", "--all").exit_code == 0
    assert run("models", "packed").stdout == ""


@pytest.mark.parametrize("arguments", [[], ["--all", "one"], ["none"]])
def test_removing_nothing_or_what_is_not_there_is_refused(run, tmp_path, monkeypatch, arguments):
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path))
    result = run("models", "remove", *arguments)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_models_of_an_unknown_name_are_refused(run):
    result = run("models", "pull", "no-such-model")
    assert result.exit_code == 2
    assert "smollm2-135m" in result.stderr


def test_usage_errors_exit_with_two(run):
    assert run("generate", "--no-such-option").exit_code == 2
