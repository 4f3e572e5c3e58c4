"""A fit learns, goes on bit by bit after a stop, and says what is wrong with its input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from paradraft.core.errors import AlignmentError, ConfigError, ModelError
from paradraft.models.tiny import write_tiny_model
from paradraft.nets.folder.files import load_drafter_folder
from paradraft.train import draft_task
from paradraft.train.beginning import NetPlan
from paradraft.train.draft_task import DraftPiece
from paradraft.train.fit import Fit, Rhythm
from paradraft.train.fit_plan import FitPlan
from paradraft.train.fitted import fitted_net
from paradraft.train.making import CardFacts, FitSources, export_fit, open_fit
from paradraft.train.objectives import Objective
from paradraft.train.progress import Report
from paradraft.train.run_folder import CHECKPOINT, History
from paradraft.train.target import open_target
from support.captures import write_capture

METHODS = ("dspark", "dflash", "eagle3", "peagle", "medusa")
NET = NetPlan(block_size=3, draft_vocab_size=60, markov_rank=8, mask_token_id=5, intermediate_size=64)
PLAN = FitPlan(steps=4, sequences=2, anchors=8, lr=5e-3, hold_out=6)
RHYTHM = Rhythm(report=2, measure=4, save=2, held_out=4)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("target"), "llama", 0)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_capture(tmp_path_factory.mktemp("shards"))


def net_plan(method: str) -> NetPlan:
    taps = (2,) if method == "medusa" else (0, 1, 2)
    return replace(NET, method=method, tap_layers=taps, markov_rank=0 if method == "eagle3" else NET.markov_rank)


def opened(
    target: Path, shards: Path, folder: Path, plan: FitPlan = PLAN, method: str = "dspark", **options: bool
) -> Fit[DraftPiece]:
    sources = FitSources(target=str(target), shards=shards, folder=folder)
    return open_fit(sources, net_plan(method), plan, device=torch.device("cpu"), **options)


def run(fit: Fit[DraftPiece], rhythm: Rhythm = RHYTHM) -> list[Report]:
    reports: list[Report] = []
    fit.run(rhythm, reports.append)
    return reports


def weights(fit: Fit[DraftPiece]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in fit.task.net.state_dict().items()}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_a_rule_that_its_target_follows(
    method: str, target: Path, shards: Path, tmp_path: Path
) -> None:
    plan = replace(PLAN, steps=40, sequences=3, lr=1e-2)
    reports = run(opened(target, shards, tmp_path, plan, method), replace(RHYTHM, report=40, measure=40, save=40))
    assert reports[-1].length is not None
    assert reports[-1].length > 2.0


@pytest.mark.parametrize(("method", "dtype"), [*((method, "fp32") for method in METHODS), ("medusa", "bf16")])
def test_blocks_of_mixed_depths_teach_every_method(
    method: str, dtype: str, target: Path, shards: Path, tmp_path: Path
) -> None:
    """Each slot's gradient comes from its own label: a slot beside it, or memory that nobody wrote, teaches nothing."""
    plan = replace(PLAN, steps=40, sequences=3, lr=1e-2, depths="mixed", dtype=dtype)
    reports = run(opened(target, shards, tmp_path, plan, method), replace(RHYTHM, report=20, measure=40, save=40))
    losses = [report.loss for report in reports]
    assert losses == sorted(losses, reverse=True)
    assert reports[-1].length is not None
    assert reports[-1].length > 2.0


@pytest.mark.parametrize(("method", "optimiser"), [*zip(METHODS, ["adamw"] * 5, strict=True), ("dspark", "muon")])
def test_a_stopped_fit_goes_on_bit_by_bit(
    method: str, optimiser: str, target: Path, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(PLAN, optimiser=optimiser, noise=0.1, depths="mixed")
    whole = opened(target, shards, tmp_path / "whole", plan, method)
    run(whole)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    first = opened(target, shards, tmp_path / "parts", plan, method)
    monkeypatch.setattr(first, "measure", stop)  # in step 4, behind the checkpoint of step 2
    with pytest.raises(KeyboardInterrupt):
        run(first)
    second = opened(target, shards, tmp_path / "parts", plan, method)
    assert second.step == 2
    run(second)
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(second)[name]), name
    entries = [History(tmp_path / part).read() for part in ("whole", "parts")]
    timeless = [[{k: v for k, v in each.items() if k != "slots_per_second"} for each in part] for part in entries]
    assert timeless[0] == timeless[1]


@pytest.mark.parametrize("method", METHODS)
def test_every_part_of_a_network_is_trained(method: str, target: Path, shards: Path, tmp_path: Path) -> None:
    fit = opened(target, shards, tmp_path, replace(PLAN, steps=5), method)
    before = weights(fit)
    run(fit)
    trained = {name for name, weight in fit.task.net.named_parameters() if weight.requires_grad}
    assert trained
    assert not {name for name in trained if torch.equal(before[name], weights(fit)[name])}


@pytest.mark.parametrize("num_layers", [1, 2, 3, 5])
def test_any_number_of_layers_has_a_finite_loss(num_layers: int, target: Path, shards: Path, tmp_path: Path) -> None:
    sources = FitSources(target=str(target), shards=shards, folder=tmp_path)
    plan = replace(net_plan("dspark"), num_layers=num_layers)
    reports = run(open_fit(sources, plan, replace(PLAN, steps=8), device=torch.device("cpu")))
    assert all(np.isfinite(report.loss) for report in reports)


def test_a_loss_that_is_not_finite_stops_the_fit_and_spares_the_checkpoint(
    target: Path, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = opened(target, shards, tmp_path)
    run(fit)
    before = (tmp_path / CHECKPOINT).read_bytes()
    again = opened(target, shards, tmp_path, replace(PLAN, steps=8), may_grow=True)
    honest = draft_task.batch_loss

    def broken(*given: object, **named: object) -> object:
        losses = honest(*given, **named)  # type: ignore[arg-type]
        return replace(losses, total=losses.total * float("nan"))

    monkeypatch.setattr(draft_task, "batch_loss", broken)
    with pytest.raises(ModelError, match="loss is nan at step 4, with the texts"):
        run(again)
    assert (tmp_path / CHECKPOINT).read_bytes() == before


def test_measuring_leaves_the_network_in_training_mode(target: Path, shards: Path, tmp_path: Path) -> None:
    fit = opened(target, shards, tmp_path)
    assert fit.measure(4) is not None
    assert fit.task.net.training


def test_another_plan_or_other_texts_are_refused_by_name(target: Path, shards: Path, tmp_path: Path) -> None:
    own = write_capture(tmp_path / "shards")
    run(opened(target, own, tmp_path / "run"))
    with pytest.raises(AlignmentError, match="another lr"):
        opened(target, own, tmp_path / "run", replace(PLAN, lr=1e-3))
    write_capture(own, shard=1)
    with pytest.raises(AlignmentError, match="other texts"):
        opened(target, own, tmp_path / "run")
    assert opened(target, own, tmp_path / "run", replace(PLAN, steps=6), may_grow=True).step == 4


def test_more_texts_do_not_change_what_draft_ids_mean(target: Path, tmp_path: Path) -> None:
    own = write_capture(tmp_path / "shards", num_texts=4, length=6)
    sources = FitSources(target=str(target), shards=own, folder=tmp_path / "run")
    few = replace(NET, draft_vocab_size=16, tap_layers=(0, 1, 2))
    first = open_fit(sources, few, PLAN, device=torch.device("cpu"))
    run(first)
    write_capture(own, num_texts=20, shard=1)
    fresh = open_fit(replace(sources, folder=tmp_path / "other"), few, PLAN, device=torch.device("cpu"))
    second = open_fit(sources, few, replace(PLAN, steps=6), device=torch.device("cpu"), may_grow=True)
    tokens = torch.arange(60)
    labels = [fit.task.prepare(fit._examples.read(1), 0).labels for fit in (first, second, fresh)]  # type: ignore[attr-defined]
    assert torch.equal(labels[0], labels[1])
    assert not torch.equal(first.task.net.state_dict()["t2d"][tokens], fresh.task.net.state_dict()["t2d"][tokens])


def test_shards_without_a_tapped_layer_are_refused(target: Path, shards: Path, tmp_path: Path) -> None:
    sources = FitSources(
        target=str(write_tiny_model(tmp_path / "deep", "llama", 0, {"num_hidden_layers": 6})),
        shards=shards,
        folder=tmp_path,
    )
    with pytest.raises(AlignmentError, match="taps of the layers 0, 1, 2"):
        open_fit(sources, replace(NET, tap_layers=(0, 4)), PLAN, device=torch.device("cpu"))


def test_shards_of_another_target_are_refused(shards: Path, tmp_path: Path) -> None:
    deep = write_tiny_model(tmp_path / "deep", "llama", 0, {"num_hidden_layers": 6})
    with pytest.raises(AlignmentError, match="num_layers"):
        opened(deep, shards, tmp_path / "run")


def test_few_rows_of_the_head_teach_the_same(target: Path, shards: Path, tmp_path: Path) -> None:
    plan = replace(PLAN, steps=40, sequences=3, lr=1e-2, head_rows=50)
    reports = run(opened(target, shards, tmp_path, plan), replace(RHYTHM, report=40, measure=40, save=40))
    assert reports[-1].length is not None
    assert reports[-1].length > 2.0


def test_parallel_eagle_learns_from_dropped_slots(target: Path, shards: Path, tmp_path: Path) -> None:
    plan = replace(PLAN, steps=40, sequences=3, lr=1e-2, depths="dropped")
    reports = run(opened(target, shards, tmp_path, plan, "peagle"), replace(RHYTHM, report=40, measure=40, save=40))
    assert reports[-1].length is not None
    assert reports[-1].length > 2.0
    with pytest.raises(ConfigError, match="P-EAGLE's"):
        opened(target, shards, tmp_path / "other", plan, "dspark")


@pytest.mark.parametrize("method", ["dflash", "peagle", "medusa"])
def test_any_network_that_drafts_in_one_pass_can_learn_a_correction(
    method: str, target: Path, shards: Path, tmp_path: Path
) -> None:
    sources = FitSources(target=str(target), shards=shards, folder=tmp_path)
    plan = replace(net_plan(method), markov_rank=4)
    fit = open_fit(sources, plan, PLAN, device=torch.device("cpu"))
    run(fit)
    weights_now = fit.task.net.state_dict()
    assert float(weights_now["markov_head.markov_w2.weight"].abs().sum()) > 0.0
    assert float(weights_now["confidence_head.proj.weight"].abs().sum()) > 0.0


@pytest.mark.parametrize("name", ["kl", "tv", "lk", "length"])
def test_losses_against_the_targets_law_can_be_fitted(name: str, target: Path, shards: Path, tmp_path: Path) -> None:
    plan = replace(PLAN, steps=6, objective=Objective(**{"ce": 0.1, name: 1.0}))  # type: ignore[arg-type]
    reports = run(opened(target, shards, tmp_path, plan))
    assert all(np.isfinite(report.loss) for report in reports)


def test_the_exported_drafter_reads_taps_as_the_target_makes_them(target: Path, shards: Path, tmp_path: Path) -> None:
    fit = opened(target, shards, tmp_path / "run")
    run(fit)
    assert fit.task.scale is not None
    facts = CardFacts(shards=shards, licences={"rule": "MIT"})
    loaded = load_drafter_folder(export_fit(tmp_path / "run", tmp_path / "out", target=str(target), facts=facts))
    taps = torch.randn(5, len(fit.task.scale)) * fit.task.scale
    expected = (taps / fit.task.scale) @ fit.task.net.state_dict()["fc.weight"].T
    torch.testing.assert_close(taps @ loaded.state["fc.weight"].T, expected, rtol=1e-4, atol=1e-5)
    assert loaded.card is not None
    assert [(source.name, source.licence) for source in loaded.card.sources] == [("rule", "MIT")]
    assert loaded.config == fitted_net(tmp_path / "run").config == fit.task.net.config


def test_an_exported_drafter_leaves_the_rows_of_its_head_to_the_target(
    target: Path, shards: Path, tmp_path: Path
) -> None:
    sources = FitSources(target=str(target), shards=shards, folder=tmp_path / "run")
    run(open_fit(sources, replace(net_plan("dspark"), draft_vocab_size=24), PLAN, device=torch.device("cpu")))
    out = {
        is_whole: load_drafter_folder(
            export_fit(
                tmp_path / "run",
                tmp_path / str(is_whole),
                target=str(target),
                facts=CardFacts(),
                dtype="fp16",
                is_whole=is_whole,
            )
        )
        for is_whole in (False, True)
    }
    assert out[False].from_target == {"lm_head.weight"}
    rows = out[False].with_rows(open_target(str(target)).tables).state["lm_head.weight"]
    assert torch.equal(rows, out[True].state["lm_head.weight"])
