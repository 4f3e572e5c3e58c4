"""Soft labels are the target's own likeliest tokens at the slot that drafts, and go with a drawn head."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from paradraft.core.errors import ConfigError
from paradraft.models.tiny import write_tiny_model
from paradraft.train.beginning import NetPlan
from paradraft.train.distill import DistillTask
from paradraft.train.draft_task import DraftPiece, DraftTask
from paradraft.train.fit import Fit
from paradraft.train.fit_plan import FitPlan
from paradraft.train.making import FitSources, open_fit
from paradraft.train.objectives import Objective
from paradraft.train.rhythm import Rhythm
from paradraft.train.sampled_head import sample_head
from paradraft.train.small_model import SmallPlan
from paradraft.train.soft_labels import NUM_LIKELIEST
from paradraft.train.target import open_target
from paradraft.train.teacher import Teacher
from support.captures import write_capture

NET = NetPlan(
    block_size=3, draft_vocab_size=60, markov_rank=8, mask_token_id=5, intermediate_size=64, tap_layers=(0, 1)
)
PLAN = FitPlan(steps=2, sequences=2, anchors=8, hold_out=6, head_rows=30, objective=Objective(soft=0.6))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("target"), "llama", 0)


@pytest.fixture(scope="module")
def sources(target: Path, tmp_path_factory: pytest.TempPathFactory) -> FitSources:
    shards = write_capture(tmp_path_factory.mktemp("shards"))
    return FitSources(target=str(target), shards=shards, folder=tmp_path_factory.mktemp("run"))


@pytest.fixture
def fit(sources: FitSources, tmp_path: Path) -> Fit[DraftPiece]:
    return begun(sources, tmp_path)


@pytest.fixture
def task(fit: Fit[DraftPiece]) -> DraftTask:
    assert isinstance(fit.task, DraftTask)
    return fit.task


def begun(sources: FitSources, folder: Path, plan: FitPlan = PLAN) -> Fit[DraftPiece]:
    return open_fit(replace(sources, folder=folder), NET, plan, device=torch.device("cpu"))


def test_they_are_the_law_of_the_place_before_the_slot(fit: Fit[DraftPiece], task: DraftTask) -> None:
    example = fit._examples.read(0)
    piece = task.prepare(example, 0)
    soft, head = piece.soft, task.net.lm_head.weight
    assert soft is not None
    assert example.last is not None
    teacher = task._teacher
    assert isinstance(teacher, Teacher)
    for anchor, slot in [(0, 0), (3, 1), (len(piece.labels) - 1, 0)]:
        place = int(piece.slots.batch.anchors[anchor]) + slot
        logits = teacher.logits(example.last[place], head)
        best = logits.topk(NUM_LIKELIEST)
        torch.testing.assert_close(soft.ids[anchor, slot], best.indices)
        torch.testing.assert_close(soft.shares[anchor, slot], 0.6 * torch.softmax(best.values, dim=-1))
    torch.testing.assert_close(soft.label_share, torch.full_like(soft.label_share, 0.4))


def test_a_drawn_head_has_their_rows(fit: Fit[DraftPiece], task: DraftTask) -> None:
    piece = task.prepare(fit._examples.read(1), 1)
    assert piece.soft is not None
    sampled = sample_head(task.net, [piece.labels, piece.soft.ids], 30, np.random.default_rng(0))
    rows = sampled.soft_labels(piece.soft).ids
    assert int(rows.min()) >= 0
    torch.testing.assert_close(sampled.weight[rows], task.net.lm_head.weight[piece.soft.ids])


def test_a_fit_with_them_learns_and_repeats(sources: FitSources, tmp_path: Path) -> None:
    fits = [begun(sources, tmp_path / name, replace(PLAN, steps=12, lr=5e-3)) for name in ("one", "two")]
    losses: list[float] = []
    for fit in fits:
        fit.run(Rhythm(report=4, measure=100, save=100), lambda report: losses.append(report.loss))
    first, second = (fit.task.net.state_dict() for fit in fits)
    assert losses[2] < losses[0]
    assert losses[:3] == losses[3:]
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name])


@pytest.mark.parametrize(
    ("values", "message"), [({"soft": 1.5}, "soft=1.5"), ({"soft": 0.5, "kl": 1.0}, "cross-entropy alone")]
)
def test_shares_and_losses_that_do_not_go_together_are_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Objective(**values)


def test_conditional_drop_token_and_distilling_refuse_them(sources: FitSources, tmp_path: Path) -> None:
    peagle = replace(NET, method="peagle", markov_rank=0)
    plan = replace(PLAN, depths="dropped", head_rows=0)
    with pytest.raises(ConfigError, match="does not go with depths='dropped'"):
        open_fit(replace(sources, folder=tmp_path), peagle, plan, device=torch.device("cpu"))
    target = open_target(sources.target)
    with pytest.raises(ConfigError, match="is for networks that draft"):
        DistillTask(torch.nn.Linear(1, 1), PLAN, SmallPlan(), target)  # type: ignore[arg-type]


def test_without_the_last_layer_they_are_refused_before_a_step(task: DraftTask) -> None:
    task._teacher = None
    with pytest.raises(ConfigError, match="last layer"):
        task._soft(type("Slots", (), {"wanted": [1], "last": None})())  # type: ignore[arg-type]
