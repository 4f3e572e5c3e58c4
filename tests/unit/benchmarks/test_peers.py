import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from paradraft.core.errors import ModelError
from paradraft.models.checkpoint import find_model, open_checkpoint
from paradraft.models.tiny import write_tiny_model
from support.peer_benchmark import FOLDER, arms, fake, figures, gguf_files, process, run, shown, turns

Arm = arms.Arm
PLAN = turns.Plan(count=6, repeats=2, concurrency=(1, 2), seconds=60.0)
PROMPTS = ([1, 2], [3, 4, 5])


def is_stopped(peer) -> bool:
    """Whether it comes to a stop: the signal takes effect when the process is next on a core."""
    for _ in range(1000):
        text = Path(f"/proc/{peer._process.pid}/stat").read_text(encoding="utf-8")
        if text.rpartition(")")[2].split()[0] == "T":
            return True
        time.sleep(0.01)
    return False


# The protocol.


def test_an_engine_answers_with_tokens_and_their_times(tmp_path):
    with fake("counts", tmp_path / "log") as peer:
        answers = peer.answer([[7], [1, 20]], 3, seconds=60.0)
    assert [answer["tokens"] for answer in answers] == [[8, 9, 10], [21, 22, 23]]
    for answer in answers:
        assert len(answer["seconds"]) == 3
        assert 0.0 < answer["seconds"][0] < answer["seconds"][-1]


def test_what_an_engine_prints_gets_into_its_log_and_no_reply(tmp_path):
    with fake("chatters", tmp_path / "log") as peer:
        [answer] = peer.answer([[7]], 2, seconds=60.0)
    assert answer["tokens"] == [8, 9]
    assert "not a reply" in (tmp_path / "log").read_text(encoding="utf-8")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_an_engine_is_stopped_while_it_is_not_its_turn_and_ends_all_the_same(tmp_path):
    with fake("counts", tmp_path / "log") as peer:
        peer.answer([[7]], 2, seconds=60.0)
        assert is_stopped(peer)
        assert peer.answer([[7]], 2, seconds=60.0)[0]["tokens"] == [8, 9]
        assert is_stopped(peer)
        started = time.monotonic()
    assert peer._process.returncode == 0
    assert time.monotonic() - started < 9.0


def test_an_error_is_an_answer_and_the_engine_goes_on(tmp_path):
    with fake("alone", tmp_path / "log") as peer:
        with pytest.raises(process.PeerRefused, match="one prompt at a time only"):
            peer.answer([[1], [2]], 2, seconds=60.0)
        assert peer.answer([[1]], 2, seconds=60.0)[0]["tokens"] == [2, 3]


def test_weights_that_cannot_be_loaded_are_told_with_the_reason(tmp_path):
    with pytest.raises(process.PeerRefused, match="these weights are not for me"):
        fake("unloadable", tmp_path / "log")


def test_an_engine_that_ends_is_told_with_its_last_word(tmp_path):
    with fake("dies", tmp_path / "log") as peer, pytest.raises(process.PeerFailed, match="ended with 3: out of luck"):
        peer.answer([[1]], 2, seconds=60.0)


def test_an_engine_that_hangs_is_not_waited_for(tmp_path):
    with fake("hangs", tmp_path / "log") as peer, pytest.raises(process.PeerFailed, match="no answer within 0"):
        peer.answer([[1]], 2, seconds=0.2)
    assert peer._process.returncode != 0


def test_a_program_that_is_not_there_is_told(tmp_path):
    with pytest.raises(process.PeerFailed, match="cannot be started"):
        process.Peer([tmp_path / "python"], tmp_path / "log", {})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_stopped_engine_does_not_outlive_a_benchmark_that_is_killed(tmp_path):
    driver = (
        "import os, sys, pathlib; from support.peer_benchmark import fake\n"
        f"peer = fake('counts', pathlib.Path({str(tmp_path / 'log')!r}))\n"
        "peer.pause(); print(peer._process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", driver], capture_output=True, text=True, env=environment, check=False)
    engine = Path(f"/proc/{int(done.stdout)}")
    for _ in range(1000):
        if not engine.exists() or "(zombie)" in (engine / "status").read_text(encoding="utf-8"):
            return
        time.sleep(0.01)
    pytest.fail("the engine still runs")


# The turns.


def test_every_engine_answers_every_prompt_in_every_repeat(tmp_path):
    with fake("counts", tmp_path / "a") as one, fake("counts", tmp_path / "b") as other:
        found = turns.measure({"one": one, "other": other}, PROMPTS, PLAN, lambda: 1e9, lambda text: None)
    alone = [(turn.arm, turn.repeat, turn.group) for turn in found.turns if turn.rows == 1]
    assert alone == [
        ("one", 0, 0), ("other", 0, 0), ("other", 0, 1), ("one", 0, 1),
        ("other", 1, 0), ("one", 1, 0), ("one", 1, 1), ("other", 1, 1),
    ]  # fmt: skip
    together = [turn for turn in found.turns if turn.rows == 2]
    assert len(together) == 4
    assert {turn.tokens for turn in together} == {((3, 4, 5, 6, 7, 8), (6, 7, 8, 9, 10, 11))}
    assert {turn.prompt_tokens for turn in together} == {5}
    assert found.bandwidth == [1e9] * 4
    assert not found.missing


def test_an_answer_of_another_length_is_no_figure(tmp_path):
    with fake("short", tmp_path / "log") as peer:
        found = turns.measure({"short": peer}, PROMPTS, PLAN, lambda: 1e9, lambda text: None)
    assert not found.turns
    assert set(found.missing) == {("short", 1), ("short", 2)}
    assert "not 2 for each of 1" in found.missing["short", 1]


def test_an_engine_that_refuses_several_prompts_keeps_its_figures_for_one(tmp_path):
    with fake("alone", tmp_path / "log") as peer:
        found = turns.measure({"alone": peer}, PROMPTS, PLAN, lambda: 1e9, lambda text: None)
    assert {turn.rows for turn in found.turns} == {1}
    assert found.missing == {("alone", 2): "ValueError: one prompt at a time only"}


def test_the_others_go_on_without_one_that_ends(tmp_path):
    with fake("dies", tmp_path / "a") as dead, fake("counts", tmp_path / "b") as alive:
        found = turns.measure({"dead": dead, "alive": alive}, PROMPTS, PLAN, lambda: 1e9, lambda text: None)
    assert {turn.arm for turn in found.turns} == {"alive"}
    assert found.missing == dict.fromkeys([("dead", 1), ("dead", 2)], "ended with 3: out of luck")


def test_groups_have_the_size_asked_for():
    assert turns.groups_of([[1], [2], [3]], 2) == [[[1], [2]]]
    with pytest.raises(ValueError, match="4 prompts at once need at least 4 prompts, there are 3"):
        turns.groups_of([[1], [2], [3]], 4)


# The figures.


def turn(arm, *seconds, rows=1, repeat=0, group=0, prompt_tokens=10, tokens=None):
    given = tuple(tuple(range(len(row))) for row in seconds) if tokens is None else tokens
    return turns.Turn(
        arm=arm, rows=rows, repeat=repeat, group=group, tokens=given, seconds=seconds, prompt_tokens=prompt_tokens
    )


OURS = Arm(name="paradraft bf16 plain", engine="paradraft", weights="bf16", precision="bf16")
SLOW = Arm(name="slow plain", engine="slow", weights="bf16", precision="bf16")
FAST = Arm(name="fast plain", engine="fast", weights="bf16", precision="bf16")
SMALL = Arm(name="small plain", engine="small", weights="gguf-Q4_1", precision="int4")


def test_decoding_and_the_prompt_are_told_apart():
    line = figures.figures_of(OURS, 1, [turn(OURS.name, (0.5, 0.6, 0.7, 0.8, 0.9))])
    assert line["decode_tokens_per_second"]["median"] == pytest.approx(10.0)
    assert line["whole_tokens_per_second"]["median"] == pytest.approx(5 / 0.9, abs=1e-3)
    assert line["prompt_tokens_per_second"]["median"] == pytest.approx(20.0)


def test_an_engine_that_hands_over_everything_at_once_has_no_decoding_speed():
    found = turns.Measurement(turns=[], missing={}, bandwidth=[])
    found.turns += [turn(OURS.name, (0.5, 1.0)), turn(FAST.name, (0.5, 0.5))]
    ours, fast = figures.table_of([OURS, FAST], found, (1,))
    assert fast["decode_tokens_per_second"]["median"] == 0.0
    assert fast["whole_tokens_per_second"]["median"] == 4.0
    assert ours["over_best_peer"] is None


def test_with_several_prompts_decoding_begins_when_all_answers_have():
    line = figures.figures_of(OURS, 2, [turn(OURS.name, (0.5, 1.0, 1.5), (1.0, 1.5, 2.0), rows=2)])
    assert line["decode_tokens_per_second"]["median"] == pytest.approx(3.0)
    assert line["whole_tokens_per_second"]["median"] == pytest.approx(3.0)


def test_the_spread_is_over_repeats():
    given = [turn(OURS.name, (1.0, 1.0 + step), repeat=repeat) for repeat, step in enumerate((0.1, 0.2, 0.5))]
    assert figures.figures_of(OURS, 1, given)["decode_tokens_per_second"] == {"median": 5.0, "min": 2.0, "max": 10.0}


def measured():
    found = turns.Measurement(turns=[], missing={(SLOW.name, 4): "no room"}, bandwidth=[2e10, 3e10])
    for arm, step in ((OURS, 0.1), (SLOW, 0.4), (FAST, 0.2), (SMALL, 0.05)):
        found.turns += [turn(arm.name, (step, 2 * step), repeat=repeat) for repeat in range(2)]
    return found


def test_the_ratio_is_to_the_best_peer_of_the_same_precision():
    lines = {line["arm"]: line for line in figures.table_of([OURS, SLOW, FAST, SMALL], measured(), (1, 4))}
    assert lines[OURS.name]["over_best_peer"]["whole"] == {"peer": FAST.name, "median": 2.0, "min": 2.0, "max": 2.0}
    assert lines[FAST.name]["over_best_peer"] is None


def test_an_arm_that_was_lost_on_the_way_has_no_figure():
    found = measured()
    found.missing[FAST.name, 1] = "ended with 1"
    lines = {line["arm"]: line for line in figures.table_of([OURS, SLOW, FAST], found, (1,))}
    assert FAST.name not in lines
    assert lines[OURS.name]["over_best_peer"]["whole"]["peer"] == SLOW.name


def report():
    found = measured()
    compared = [OURS, SLOW, FAST, SMALL]
    machine = {"cpu": "Some Processor"}
    return {
        "provenance": {
            "model": {"name": "tiny"}, "machine": machine, "started_at": "2026-01-02T03:04:05+00:00", "commit": None,
        },
        "plan": {"count": 2, "repeats": 2, "concurrency": [1, 4], "threads": 2, "prompts": 1},
        "prompts": {"name": "mt-bench"},
        "ratios": ["bf16"],
        "engines": {OURS.name: {"runner": "native (AVX512)"}, FAST.name: {"fast": "1.0"}},
        "read_bandwidth_gb_s": {"min": 20.0, "max": 30.0},
        "figures": figures.table_of(compared, found, (1, 4)),
        "agreement": [],
        "absent": run.absences({"vllm bf16 plain": "not installed"}, found),
    }  # fmt: skip


def test_the_table_names_conditions_figures_and_what_is_absent():
    text = shown.markdown(report())
    assert "tiny on Some Processor, 2 threads, 1 mt-bench prompts x 2 tokens, 2 repeats" in text
    assert "memory read at 20 to 30 GB/s in the same run" in text
    assert "| paradraft bf16 plain | 10.0 (10.0-10.0) | 10.0 (10.0-10.0) | 100 | 2.00x fast plain |" in text
    assert "Paradraft ran on native (AVX512)." in text
    assert "- vllm bf16 plain: not installed" in text
    assert "- slow plain, 4 at once: no room" in text


def test_a_ratio_is_printed_only_for_precisions_held_to_be_equal():
    assert "2.00x" not in shown.markdown({**report(), "ratios": ["int8"]})


def test_the_picture_has_every_arm_and_where_it_comes_from():
    picture = shown.draw(report())
    assert picture.startswith("<svg")
    for text in (OURS.name, FAST.name, "Some Processor", "2026-01-02"):
        assert text in picture


def test_answers_are_compared_prompt_by_prompt():
    found = turns.Measurement(
        turns=[turn("a", (1.0, 2.0), group=1, tokens=((3, 4),)), turn("a", (1.0, 2.0), tokens=((1, 2),))],
        missing={},
        bandwidth=[],
    )
    assert figures.answers_of("a", found) == [(1, 2), (3, 4)]
    assert figures.same_on_repeat("a", found)
    found.turns.append(turn("a", (1.0, 2.0), repeat=1, tokens=((1, 9),)))
    assert not figures.same_on_repeat("a", found)


# The arms.


def test_arms_are_chosen_by_name():
    everything = arms.all_arms(["auto", "ngram"])
    names = [arm.name for arm in arms.choose(everything, "paradraft int8 *, llama.cpp Q8_0 plain")]
    assert names == ["paradraft int8 plain", "paradraft int8 default", "paradraft int8 ngram", "llama.cpp Q8_0 plain"]
    with pytest.raises(ValueError, match=r"No arm is called 'llama\.cpp F16'"):
        arms.choose(everything, "llama.cpp F16")


def test_every_engine_has_a_script_and_a_name_that_install_knows():
    script = (FOLDER / "install.sh").read_text(encoding="utf-8")
    for engine in {arm.engine for arm in arms.all_arms(["auto"])}:
        assert (FOLDER / "engines" / f"with_{engine.replace('-', '_')}.py").is_file()
        assert engine == arms.OURS or f"{engine})" in script


def test_setting_up_an_unknown_engine_fails_by_name(tmp_path):
    command = ["sh", str(FOLDER / "install.sh"), str(tmp_path), "nonesuch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "nonesuch: no such peer" in done.stderr
    assert "not set up: nonesuch" in done.stderr


def test_an_engine_that_is_not_installed_is_absent_with_its_reason(tmp_path):
    class Weights:
        def form(self, name):
            return tmp_path / name

    chosen = arms.choose(arms.all_arms(["auto"]), "vllm bf16 plain")
    options = argparse.Namespace(environments=tmp_path, threads=1, concurrency=(1,))
    with ExitStack() as stack:
        peers, facts, absent = run.start_all(chosen, options, Weights(), 256, stack)
    assert (peers, facts) == ({}, {})
    assert list(absent) == ["vllm bf16 plain"]
    assert absent["vllm bf16 plain"].startswith(f"not installed: no {tmp_path}")


# The weights.


@pytest.mark.parametrize(
    ("family", "kind"), [("llama", "BF16"), ("qwen3", "BF16"), ("qwen2", "BF16"), ("llama", "Q8_0")]
)
def test_a_file_for_llama_cpp_has_the_very_weights(tmp_path, family, kind):
    changes = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "head_dim": 16}
    folder = write_tiny_model(tmp_path / "model", family, 1, {**changes, "use_sliding_window": False})
    path = gguf_files.write_gguf(folder, tmp_path / "model.gguf", kind)
    expected, written = open_checkpoint(find_model(str(folder))), open_checkpoint(find_model(str(path)))
    for key in ("hidden_size", "num_attention_heads", "num_key_value_heads", "rope_theta", "vocab_size"):
        assert written.config[key] == expected.config[key]
    names = [
        name for name in expected.weights if name != "lm_head.weight" or not expected.config["tie_word_embeddings"]
    ]
    assert sorted(written.weights) == sorted(names)
    for name in names:
        values, wanted = written.weights[name].float().numpy(), expected.weights[name].float().numpy()
        bound = np.abs(wanted).max() / (100 if kind == "Q8_0" else 250) if wanted.ndim > 1 else 0.0
        assert np.abs(values - wanted).max() <= bound, name


def test_a_model_that_the_file_cannot_describe_is_refused(tmp_path):
    folder = write_tiny_model(tmp_path / "model", "llama", 1)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["rope_scaling"] = {"rope_type": "linear", "factor": 2.0}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ModelError, match="rope_scaling"):
        gguf_files.write_gguf(folder, tmp_path / "model.gguf", "BF16")


def test_the_report_is_json_with_everything_but_the_time_of_each_token(monkeypatch):
    monkeypatch.setattr(run, "agreement", lambda *given: [])
    options = argparse.Namespace(max_tokens=2, repeats=2, concurrency=(1, 4), threads=1, ratios="bf16,int8")
    prompts = argparse.Namespace(prompts=[None], name="mt-bench", sha256="0" * 64)
    weights = argparse.Namespace(form=Path)
    found = measured()
    made = run.report_of(options, [OURS, SLOW], prompts, weights, (found, {OURS.name: {}}, {}), {"commit": None})
    kept = json.loads(json.dumps(made))
    assert kept["answers"] == {OURS.name: ["0 1"], SLOW.name: ["0 1"]}
    assert kept["turns"][0] == {
        "arm": OURS.name, "rows": 1, "repeat": 0, "group": 0, "first": 0.1, "last": 0.2, "tokens_after_first": 1,
    }  # fmt: skip
    assert kept["absent"] == [{"arm": SLOW.name, "rows": 4, "reason": "no room"}]
    assert [line["arm"] for line in kept["figures"]] == [OURS.name, SLOW.name]
