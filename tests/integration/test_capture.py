"""Capturing a small target: what is stored is what it said and held, however often the run is killed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from paradraft import LLM, SamplingParams
from paradraft.core.arrays import ints, starts_of
from paradraft.core.errors import ModelError, ProtocolError
from paradraft.core.ports import Limits, Needs, Tokenizer
from paradraft.core.records import Batch, FinishReason, Proposal, RowSampling
from paradraft.engine.results import GenerationResult
from paradraft.models.build import Running
from paradraft.models.load import load_model
from paradraft.models.tiny import write_tiny_model
from paradraft.train import files
from paradraft.train.capture import Capture, CaptureReport
from paradraft.train.plan import CaptureOptions, CapturePlan
from paradraft.train.prompts import Task
from paradraft.train.recorder import Recorder
from paradraft.train.shards import ShardReader, ShardWriter
from paradraft.train.units import Share
from support.speakers import result_of

TAPS = (0, 2)
OPTIONS = CaptureOptions(
    own_turns=5, openings=0.0, max_prompt_len=80, max_tokens=12, unit=3, turns_unit=3, temperature=0.5
)
QUESTIONS = (
    "How long is the river?",
    "Name three birds.",
    "Is ice lighter than water?",
    "Sing a song for me now",
    "x" * 90,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"), "llama", 3)


@dataclass
class Speaker:
    """The engine, with prepared own turns, and a plug that can be pulled before any call."""

    llm: LLM
    calls_left: int = 10**6

    @property
    def tokenizer(self) -> Tokenizer:
        return self.llm.tokenizer

    @property
    def limits(self) -> Limits:
        return self.llm.limits

    def generate(self, prompts: list[list[int]], params: list[SamplingParams]) -> list[GenerationResult]:
        if not self.calls_left:
            raise KeyboardInterrupt
        self.calls_left -= 1
        if params[0].temperature == 1.0:
            texts = [f"Tell me of the number {(each.seed or 0) % 2**32}" for each in params]
            return [result_of([1], [2], pieces=(text,), finish=FinishReason.STOP) for text in texts]
        return self.llm.generate(prompts, params)


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder(TAPS)


@pytest.fixture(scope="module")
def llm(folder: Path, recorder: Recorder) -> Iterator[LLM]:
    # Few pages and short steps, so that prompts come in chunks and rows are preempted.
    options = {"max_step_tokens": 16, "kv_tokens": 160, "page_size": 8, "max_model_len": 96, "max_rows": 3}
    with LLM(
        str(folder), custom=recorder, dtype="fp32", prefix_caching=False, gamma=0, adaptive=False, **options
    ) as it:
        yield it


def plan_of(llm: LLM, options: CaptureOptions = OPTIONS, held_out: tuple[str, ...] = ()) -> CapturePlan:
    return CapturePlan(
        target={"name": "tiny", "sha256": llm.identity.sha256},
        tap_layers=TAPS,
        hidden_size=llm.limits.hidden_size,
        vocab_size=llm.limits.vocab_size,
        tasks=tuple(Task(messages=(("user", text),), source="file") for text in QUESTIONS),
        held_out=held_out,
        options=options,
    )


def capture(
    folder: Path, speaker: Speaker, recorder: Recorder | None, plan: CapturePlan, share: Share | None = None
) -> CaptureReport:
    return Capture(plan, speaker, recorder, ShardWriter(folder, plan.manifest()), share).run()


def contents(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, llm: LLM, recorder: Recorder) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    report = capture(folder, Speaker(llm), recorder, plan_of(llm))
    assert report.num_sequences == 9
    assert report.left_out == {"too long": 1}
    assert report.num_answered > 0
    return folder


def test_training_prompts_are_token_for_token_what_a_chat_is_served_with(whole: Path, llm: LLM) -> None:
    served = {tuple(llm.encode_chat([{"role": "user", "content": text}])) for text in QUESTIONS[:4]}
    captured = {tuple(each.ids[: each.prompt_len].tolist()): each.source for each in ShardReader(whole).sequences()}
    assert served == {ids for ids, source in captured.items() if source == "file"}
    assert sum(source == "self" for source in captured.values()) == 5


def test_answers_are_those_of_the_engine_without_a_recorder(whole: Path, folder: Path) -> None:
    with LLM(str(folder), drafter="none", dtype="fp32") as plain:
        seeds = iter(range(1 << 40, 1 << 41))
        for each in ShardReader(whole).sequences():
            params = SamplingParams(temperature=OPTIONS.temperature, max_tokens=OPTIONS.max_tokens, seed=next(seeds))
            [result] = plain.generate(each.ids[: each.prompt_len].tolist(), params)
            assert each.ids[each.prompt_len :].tolist() == list(result.choices[0].token_ids)


def test_taps_are_the_outputs_of_the_layers_that_the_target_has_in_one_pass(whole: Path, folder: Path) -> None:
    """A tap of the layer beside, or of the position beside, is not near."""
    model = load_model(
        str(folder),
        running=Running(dtype="fp32"),
        num_pages=16,
        page_size=8,
        needs=Needs(sources=("x",), hidden_layers=(0, 1, 2)),
    )
    for each in ShardReader(whole).sequences():
        count = len(each.ids) - 1
        states = one_pass(model.target, each.ids[:-1])
        assert each.taps is not None
        found = each.taps[:-1].astype(np.float32)
        near = np.concatenate([states[layer] for layer in TAPS], axis=1)
        np.testing.assert_allclose(found, near, rtol=2e-3, atol=2e-3)
        beside = np.concatenate([states[1], states[1]], axis=1)
        assert np.abs(found - beside).mean() > 0.1
        assert np.abs(found[1:] - near[:-1]).mean() > 0.1
        assert not each.taps[-1].any()
        assert count == len(near)
    model.target.close()


def one_pass(target: object, ids: np.ndarray) -> dict[int, np.ndarray]:
    batch = Batch(
        rows=ints([0]),
        starts=starts_of([len(ids)]),
        tokens=ids,
        context_len=ints([0]),
        num_scored=ints([1]),
        page_starts=ints([0, 16]),
        pages=ints(range(16)),
        page_size=8,
        history=(ids,),
        sampling=(RowSampling(params=SamplingParams(), seed=0, choice=0, prompt_len=1, stop_ids=()),),
    )
    scores = target.submit(batch, Proposal.empty(1)).wait()  # type: ignore[attr-defined]
    return {layer: scores.hidden(layer) for layer in (0, 1, 2)}


@pytest.mark.parametrize("calls", range(5))
def test_a_capture_killed_between_any_two_units_goes_on_to_the_same_result(
    tmp_path: Path, whole: Path, llm: LLM, recorder: Recorder, calls: int
) -> None:
    plan = plan_of(llm)
    with pytest.raises(KeyboardInterrupt):
        capture(tmp_path, Speaker(llm, calls_left=calls), recorder, plan)
    capture(tmp_path, Speaker(llm), recorder, plan)
    assert contents(tmp_path) == contents(whole)


@pytest.mark.parametrize("writes", range(12))
def test_a_capture_killed_in_any_write_goes_on_to_the_same_result(
    tmp_path: Path, whole: Path, llm: LLM, recorder: Recorder, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, left = plan_of(llm), [writes]

    def pull_the_plug(_: int) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", pull_the_plug)
        with pytest.raises(KeyboardInterrupt):
            capture(tmp_path, Speaker(llm), recorder, plan)
    capture(tmp_path, Speaker(llm), recorder, plan)
    assert contents(tmp_path) == contents(whole)


def test_disk_use_is_foretold_within_five_percent_by_the_first_shard(
    tmp_path: Path, whole: Path, llm: LLM, recorder: Recorder
) -> None:
    plan = plan_of(llm)
    run = Capture(plan, Speaker(llm), recorder, ShardWriter(tmp_path, plan.manifest()))
    foretold: list[int | None] = []
    run.run(lambda done, total: foretold.append(run.projected_bytes()))
    assert foretold[0] is None
    files = [*tmp_path.glob("taps_*"), *tmp_path.glob("shard_*")]
    real = sum(path.stat().st_size for path in files)
    assert foretold[1] is not None
    assert abs(foretold[1] - real) < 0.05 * real
    assert foretold[-1] == ShardReader(tmp_path).manifest.num_tokens * plan.bytes_per_token


def test_two_processes_share_a_capture_and_give_the_same_result(
    tmp_path: Path, whole: Path, llm: LLM, recorder: Recorder
) -> None:
    with pytest.raises(KeyboardInterrupt):
        capture(tmp_path, Speaker(llm, calls_left=3), recorder, plan_of(llm), Share(1, 2))
    capture(tmp_path, Speaker(llm), recorder, plan_of(llm), Share(0, 2))
    assert contents(tmp_path) == contents(whole)


def test_a_finished_capture_asks_nothing_more(whole: Path, llm: LLM, recorder: Recorder) -> None:
    report = capture(whole, Speaker(llm, calls_left=0), recorder, plan_of(llm))
    assert report.num_answered == 0
    assert report.num_sequences == 9


def test_a_damaged_shard_is_made_anew(tmp_path: Path, whole: Path, llm: LLM, recorder: Recorder) -> None:
    capture(tmp_path, Speaker(llm), recorder, plan_of(llm))
    path = tmp_path / "taps_0001.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    (tmp_path / "turns" / "turns_0001.json").write_text('["cut')
    capture(tmp_path, Speaker(llm), recorder, plan_of(llm))
    assert contents(tmp_path) == contents(whole)


def test_a_full_disk_stops_the_run_and_loses_nothing(
    tmp_path: Path, whole: Path, llm: LLM, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        if list(tmp_path.glob("shard_0000*")):
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        with pytest.raises(ModelError, match="disk is full"):
            capture(tmp_path, Speaker(llm), recorder, plan_of(llm))
    assert not list(tmp_path.rglob("*.partial-*"))
    capture(tmp_path, Speaker(llm), recorder, plan_of(llm))
    assert contents(tmp_path) == contents(whole)


def test_tokens_alone_are_the_same_tokens(tmp_path: Path, whole: Path, llm: LLM) -> None:
    capture(tmp_path, Speaker(llm), None, plan_of(llm))
    mine, theirs = ShardReader(tmp_path), ShardReader(whole)
    for one, other in zip(mine.sequences(), theirs.sequences(), strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        assert one.taps is None


def test_held_out_questions_are_never_asked(tmp_path: Path, llm: LLM, recorder: Recorder) -> None:
    held_out = ("Is ICE lighter, than water", "Tell me of the number 3", "how long")
    report = capture(tmp_path, Speaker(llm), recorder, plan_of(llm, held_out=held_out))
    assert report.left_out == {"too long": 1, "held out": 2}
    asked = [llm.tokenizer.decode(each.ids[: each.prompt_len]) for each in ShardReader(tmp_path).sequences()]
    assert len(asked) == 7
    assert not [text for text in asked if "ice" in text or "number 3" in text]


def test_conversations_with_taps_that_are_not_numbers_are_left_out(
    tmp_path: Path, llm: LLM, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = recorder.take
    monkeypatch.setattr(recorder, "take", lambda seed, count: take(seed, count) if seed % 3 else None)
    report = capture(tmp_path, Speaker(llm), recorder, plan_of(llm))
    assert 0 < report.left_out["not finite"] < 4
    assert report.num_sequences == 9 - report.left_out["not finite"]
    monkeypatch.setattr(recorder, "take", lambda seed, count: None)
    with pytest.raises(ModelError, match="3 of 3 conversations were lost: their taps are not finite"):
        capture(tmp_path / "all", Speaker(llm), recorder, plan_of(llm))


def test_a_prefix_from_the_cache_is_noticed_and_not_stored(tmp_path: Path, folder: Path) -> None:
    recorder = Recorder(TAPS)
    with LLM(str(folder), custom=recorder, dtype="fp32", gamma=0, page_size=2, max_rows=1) as it:
        plan = plan_of(it, replace(OPTIONS, own_turns=0))
        with pytest.raises(ProtocolError, match="prefix caching off"):
            capture(tmp_path, Speaker(it), recorder, plan)
    assert not list(tmp_path.glob("shard_*"))
