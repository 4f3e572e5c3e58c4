"""A small model distilled from a target's captured laws is a draft model that the engine loads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from paradraft import LLM, SamplingParams
from paradraft.core.errors import ConfigError, ModelError
from paradraft.models.tiny import write_tiny_model
from paradraft.train.distill import export_small, open_distillation
from paradraft.train.fit import Rhythm
from paradraft.train.fit_plan import FitPlan
from paradraft.train.objectives import Objective
from paradraft.train.progress import Report
from paradraft.train.small_model import SmallPlan
from support.captures import VOCAB, write_capture

SMALL = SmallPlan(num_layers=1, hidden_size=32, intermediate_size=48, num_heads=4, num_key_heads=2)
PLAN = FitPlan(steps=40, sequences=3, lr=2e-2, hold_out=6)
RHYTHM = Rhythm(report=20, measure=40, save=20, held_out=4)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("target"), "llama", 0)


def test_a_distilled_model_learns_loads_and_drafts_what_it_learnt(target: Path, tmp_path: Path) -> None:
    shards = write_capture(tmp_path / "shards")
    fit = open_distillation(shards, tmp_path / "run", target=str(target), small=SMALL, plan=PLAN)
    reports: list[Report] = []
    fit.run(RHYTHM, reports.append)
    assert reports[-1].length is not None
    assert reports[-1].length > 2.0
    folder = export_small(tmp_path / "run", tmp_path / "small", target=str(target), dtype="fp32")
    ids = torch.tensor([10, 30, 19, 38])
    with torch.no_grad():
        wanted = int((fit.task.net.hidden(ids)[-1] @ fit.task.net.head.T).argmax())  # type: ignore[operator, union-attr]
    with LLM(str(folder), drafter="none", gamma=0, dtype="fp32", kv_tokens=512) as small:
        assert small.limits.vocab_size == VOCAB
        assert small.generate([ids.tolist()], SamplingParams(temperature=0.0, max_tokens=1))[0].choices[
            0
        ].token_ids == (wanted,)
    greedy = SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True)
    options = {"dtype": "fp32", "kv_tokens": 512, "gamma": 3, "adaptive": False}
    with (
        LLM(str(target), drafter=str(folder), **options) as drafting,
        LLM(str(target), drafter="none", **options) as plain,
    ):
        assert (
            drafting.generate([[10, 30]], greedy)[0].choices[0].token_ids
            == plain.generate([[10, 30]], greedy)[0].choices[0].token_ids
        )


def test_it_learns_the_targets_law_and_not_only_its_choices(target: Path, tmp_path: Path) -> None:
    shards = write_capture(tmp_path / "shards")
    plan = replace(PLAN, steps=6, objective=Objective(ce=0.1, kl=1.0, weighting="equal"))
    fit = open_distillation(shards, tmp_path / "run", target=str(target), small=SMALL, plan=plan)
    piece = fit.task.prepare(fit._examples.read(1), 0)
    first = float(fit.task.loss(piece, 1.0).total.detach())  # type: ignore[union-attr]
    for weight in fit.task.net.parameters():
        weight.grad = None
    fit.run(RHYTHM, lambda _: None)
    assert float(fit.task.loss(piece, 1.0).total.detach()) < first  # type: ignore[union-attr]


def test_the_gradient_made_in_parts_is_the_whole_one(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = write_capture(tmp_path / "shards")
    grads = []
    for chunk in (4, 1000):
        monkeypatch.setattr("paradraft.train.distill._CHUNK", chunk)
        fit = open_distillation(shards, tmp_path / str(chunk), target=str(target), small=SMALL, plan=PLAN)
        losses = fit.task.loss(fit.task.prepare(fit._examples.read(1), 0), 0.5)
        assert losses is not None
        losses.total.backward()
        grads.append([weight.grad for weight in fit.task.net.parameters()])
    for parts, whole in zip(*grads, strict=True):
        torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-6)


def test_a_stopped_distillation_goes_on_bit_by_bit(target: Path, tmp_path: Path) -> None:
    shards = write_capture(tmp_path / "shards")
    plan, rhythm = replace(PLAN, steps=6), replace(RHYTHM, save=3, report=3)
    whole = open_distillation(shards, tmp_path / "whole", target=str(target), small=SMALL, plan=plan)
    whole.run(rhythm, lambda _: None)

    def stop(report: Report) -> None:
        if report.step == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_distillation(shards, tmp_path / "parts", target=str(target), small=SMALL, plan=plan).run(rhythm, stop)
    second = open_distillation(shards, tmp_path / "parts", target=str(target), small=SMALL, plan=plan)
    assert second.step == 3
    second.run(rhythm, lambda _: None)
    for name, tensor in whole.task.net.state_dict().items():
        assert torch.equal(tensor, second.task.net.state_dict()[name]), name


def test_sizes_that_cannot_be_and_folders_of_other_fits_are_refused(target: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="hidden_size=30"):
        SmallPlan(hidden_size=30, num_heads=4)
    with pytest.raises(ModelError, match="no distilled model"):
        export_small(tmp_path, tmp_path / "out", target=str(target))
