"""Commands from end to end: on a tiny network, and on the built-in model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from paradraft.cli.main import app
from paradraft.hub.assets import is_cached
from paradraft.lab.exactness.check import CaseResult
from paradraft.lab.exactness.ledger import Ledger
from paradraft.models.tiny import write_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_model(tmp_path_factory.mktemp("tiny"), "llama", 1))


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("prompts") / "questions.txt"
    path.write_text("one two one two\nthree four three\nfive\nsix six six\n")
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, list(arguments))


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a program of its own, without a network."""
    code = "import sys; sys.argv[0] = 'paradraft'; from paradraft.cli.main import main; main()"
    offline = os.environ | {"PIP_NO_INDEX": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=offline, check=False
    )


def test_generate_streams_what_json_reports(folder: str) -> None:
    options = ["generate", "one two one two", "--model", folder, "--dtype", "fp32", "--raw", "-n", "24"]
    streamed = run(*options)
    assert streamed.exit_code == 0, streamed.output
    answer = json.loads(run(*options, "--json").stdout)
    assert streamed.stdout == answer["choices"][0]["text"] + "\n"


def test_bench_with_the_peer_writes_a_whole_report(folder: str, questions: str, tmp_path: Path) -> None:
    file, page = tmp_path / "out.json", tmp_path / "out.html"
    result = run(
        "bench", "--model", folder, "--dtype", "fp32", "--drafter", "ngram", "--prompts", questions, "--raw",
        "--max-tokens", "24", "--repeats", "2", "--concurrency", "1,2", "--arms", "plain,fixed,adaptive",
        "--peer", "transformers", "--short", "4", "--json", str(file), "--html", str(page),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text())
    arms = {(arm["name"], arm["concurrency"]): arm for arm in report["arms"]}
    assert len(arms) == 10
    assert all(arm["identical_to_plain"] for arm in arms.values())
    assert all(arm["tokens"] == 24 * 4 * 2 for arm in arms.values())
    assert not [entry["refused"] for entry in report["speedups"] if entry["refused"]]
    assert arms[("fixed", 1)]["steps"]["measured"] < arms[("plain", 1)]["steps"]["measured"]
    assert arms[("fixed", 1)]["seconds_by_verb"].keys() >= {"propose", "score", "accept"}
    assert len(report["provenance"]["model"]["sha256"]) == 64
    assert page.read_text().count("<svg") >= 3


def test_passes_are_timed_by_size_beside_the_speed_of_memory(folder: str, tmp_path: Path) -> None:
    file = tmp_path / "passes.json"
    result = run(
        "bench", "--model", folder, "--dtype", "fp32", "--passes", "1,8", "--repeats", "1", "--json", str(file)
    )
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text())
    assert [cost["tokens"] for cost in report["passes"]] == [1, 8]
    for cost in report["passes"]:
        assert 0 < cost["milliseconds"]["min"] <= cost["milliseconds"]["median"] <= cost["milliseconds"]["max"]
    assert report["read_bandwidth_gb_s"] > 0
    assert report["rounds"] == 10
    assert "8 tokens:" in result.stdout


def test_a_pass_that_does_not_fit_is_refused(folder: str) -> None:
    result = run("bench", "--model", folder, "--passes", "1,400")
    assert result.exit_code == 2
    assert "A pass over 400 tokens behind 256 does not fit" in result.stderr


def test_exactness_holds_on_a_tiny_network_with_every_drafter(folder: str, questions: str) -> None:
    result = run(
        "exactness", "--model", folder, "--prompts", questions, "--drafters", "ngram,suffix,self", "--gammas", "1,4",
        "--temperatures", "0,0.7", "--max-tokens", "16",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert ", 0 failed" in result.stdout


def test_a_stopped_exactness_run_goes_on_to_the_same_results(
    folder: str, questions: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(file: Path) -> list[str]:
        return [
            "exactness", "--model", folder, "--prompts", questions, "--drafters", "ngram,self", "--gammas", "1,4",
            "--temperatures", "0,0.7", "--max-tokens", "16", "--json", str(file),
        ]  # fmt: skip

    def results(file: Path) -> list[dict[str, object]]:
        return [{**result, "seconds": 0} for result in json.loads(file.read_text())["results"]]

    whole, stopped = tmp_path / "whole.json", tmp_path / "stopped.json"
    assert run(*ask(whole)).exit_code == 0
    add = Ledger.add

    def add_and_stop(ledger: Ledger, result: CaseResult) -> None:
        add(ledger, result)
        if len(ledger.results) == 9:
            raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "add", add_and_stop)
    assert run(*ask(stopped)).exit_code == 130
    monkeypatch.undo()
    assert results(stopped) == results(whole)[:9]
    assert run(*ask(stopped)).exit_code == 0
    assert results(stopped) == results(whole)
    assert json.loads(stopped.read_text())["setup"] == json.loads(whole.read_text())["setup"]


def test_compare_of_a_model_with_itself_agrees(folder: str) -> None:
    result = run(
        "compare", "one two", "--target", folder, "--drafter", folder, "--dtype", "fp32", "--raw", "-n", "8", "--json"
    )
    assert result.exit_code == 0, result.output
    comparison = json.loads(result.stdout)
    assert comparison["agreement"] == 1.0
    assert comparison["jaccard"] == 1.0
    assert len(comparison["positions"]) == len([p for p in comparison["positions"] if not p["is_answer"]]) + 8


def test_compare_of_two_networks_shows_where_they_part(folder: str, tmp_path: Path) -> None:
    other = str(write_tiny_model(tmp_path / "other", "llama", 2))
    result = run(
        "compare", "one two", "--target", folder, "--drafter", other, "--dtype", "fp32", "--raw", "-n", "8", "--json"
    )
    comparison = json.loads(result.stdout)
    assert comparison["agreement"] < 1.0
    assert 0.0 <= comparison["overlap"] < 1.0
    assert sum(comparison["histogram"]) == 8


def test_an_exported_model_answers_like_the_original(folder: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    assert run("models", "export", folder, copy, "--dtype", "fp32").exit_code == 0
    ask = ["generate", "one two", "--dtype", "fp32", "--raw", "-n", "12", "--json", "--model"]
    answers = [json.loads(run(*ask, model).stdout)["choices"][0]["token_ids"] for model in (folder, copy)]
    assert answers[0] == answers[1]


def test_a_missing_model_is_one_line_and_exit_code_two() -> None:
    done = start("generate", "x", "--model", "no-such-folder")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("paradraft: 'no-such-folder' is no model")


needs_model = pytest.mark.skipif(
    not (is_cached("smollm2-135m") and is_cached("mt-bench")), reason="not in the cache; make setup brings it"
)


@pytest.mark.real_model
@pytest.mark.timeout(900)
@needs_model
def test_exactness_holds_on_the_built_in_model() -> None:
    result = run("exactness", "--quick")
    assert result.exit_code == 0, result.output


@pytest.mark.real_model
@pytest.mark.timeout(900)
@needs_model
def test_the_demo_ends_with_identical_yes_and_drafts_that_stand() -> None:
    done = start("demo", "-n", "24")
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-5:]
    assert last[-1] == "identical: yes"
    assert float(last[3].split()[1]) > 1.3  # tau: a drafter gone blind would show here, not in the text
