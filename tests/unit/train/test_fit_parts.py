"""Anchors, schedules, orders, scales and first weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from paradraft.core.arrays import ints
from paradraft.core.errors import ConfigError, ModelError
from paradraft.models.tiny import write_tiny_model
from paradraft.train.anchors import all_anchors, draw_anchors, is_looping
from paradraft.train.batches import draft_labels, make_slots
from paradraft.train.beginning import NetPlan, begin_net, fold_scale, usual_taps
from paradraft.train.examples import Examples, Order
from paradraft.train.fit_plan import FitPlan
from paradraft.train.optimisers import orthogonalised
from paradraft.train.run_folder import CHECKPOINT, HISTORY, Checkpoint, History, read_checkpoint, write_checkpoint
from paradraft.train.target import open_target
from support.captures import HIDDEN, VOCAB, rule_text, write_capture


def test_anchors_lie_in_the_answer_and_have_a_token_behind_them() -> None:
    assert all_anchors(4, 8).tolist() == [4, 5, 6]
    assert all_anchors(8, 8).tolist() == []
    drawn = draw_anchors(rule_text(30, 10), 4, 7, np.random.default_rng(0))
    assert len(set(drawn.tolist())) == 7
    assert drawn.tolist() == sorted(drawn.tolist())
    assert 4 <= drawn.min() <= drawn.max() <= 28


def test_places_in_a_loop_can_be_left_out() -> None:
    ids = ints([*range(100, 150), *[1, 2, 3] * 30])
    looping = is_looping(ids)
    assert not looping[:90].any()
    assert looping[105:].all()
    assert draw_anchors(ids, 2, 1000, np.random.default_rng(0), skip_loops=True).max() < 105


def test_labels_end_with_their_own_text(tmp_path: Path) -> None:
    examples = Examples(write_capture(tmp_path, num_texts=2, length=6), (0, 2), 2, hold_out=0)
    first, second = examples.read(0), examples.read(1)
    slots = make_slots([first, second], [ints([4]), ints([4])], 3, None)
    ids = first.ids.tolist(), second.ids.tolist()
    assert slots.wanted.tolist() == [[ids[0][5], -1, -1], [ids[1][5], ids[1][6], -1]]
    assert slots.previous[:, 0].tolist() == [ids[0][4], ids[1][4]]
    assert slots.batch.anchors.tolist() == [4, 10]
    assert slots.last is not None
    assert first.last is not None
    torch.testing.assert_close(slots.last[0, 0], first.last[4])
    places = torch.full((VOCAB,), -1)
    places[ids[0][5]] = 9
    assert draft_labels(slots.wanted, places)[0].tolist() == [9, -1, -1]


def test_taps_are_picked_by_layer_and_divided_by_their_size(tmp_path: Path) -> None:
    folder = write_capture(tmp_path)
    both, one = Examples(folder, (2, 0), 2), Examples(folder, (1,), 2)
    assert both.read(1).taps.shape[1] == 2 * HIDDEN
    scale = both.measure_scale()
    assert scale[:HIDDEN].mean() == pytest.approx(5.0, rel=0.3)
    assert scale[HIDDEN:].mean() == pytest.approx(1.0, rel=0.3)
    assert one.measure_scale().mean() == pytest.approx(20.0, rel=0.3)


def test_held_out_texts_are_never_fitted_to_and_stay_held_out_when_texts_come(tmp_path: Path) -> None:
    folder = write_capture(tmp_path, num_texts=9)
    before = Examples(folder, (0,), 2, hold_out=4)
    write_capture(folder, num_texts=9, shard=1)
    after = Examples(folder, (0,), 2, hold_out=4)
    assert before.held_out.tolist() == [0, 4, 8]
    assert after.held_out.tolist()[:3] == [0, 4, 8]
    assert not set(after.held_out) & set(after.fitted)


def test_folders_without_taps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no text with taps"):
        Examples(write_capture(tmp_path, num_texts=1), (0,), 2, hold_out=1)


def test_every_epoch_has_each_text_once_in_an_order_of_its_own() -> None:
    order, again = Order(ints(np.arange(5) * 10), 3), Order(ints(np.arange(5) * 10), 3)
    epochs = [[order.at(epoch * 5 + place) for place in range(5)] for epoch in range(3)]
    assert all(sorted(epoch) == [0, 10, 20, 30, 40] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1
    assert again.at(12) == epochs[2][2]


def test_rates_rise_and_fall_as_planned() -> None:
    plan = FitPlan(steps=100, warmup=0.1, final=0.1)
    assert plan.rate(0) == pytest.approx(0.1)
    assert plan.rate(10) == pytest.approx(1.0)
    assert plan.rate(99) == pytest.approx(0.1, abs=0.01)
    late = replace(plan, schedule="linear-end", cooldown=0.2)
    assert late.rate(79) == 1.0
    assert late.rate(90) == pytest.approx(0.55)
    assert replace(plan, schedule="constant").rate(99) == 1.0
    assert FitPlan.from_json(plan.to_json()) == plan


def test_mixed_depths_draw_shallow_blocks_more_often() -> None:
    plan = FitPlan(steps=1, depths="mixed")
    assert [plan.depth(draw, 5) for draw in (0.1, 0.5, 0.9)] == [2, 3, 5]
    assert plan.depth(0.9, 1) == 1
    assert FitPlan(steps=1).depth(0.1, 5) == 5


@pytest.mark.parametrize(
    "values", [{"steps": 0}, {"lr": 0.0}, {"optimiser": "sgd"}, {"hold_out": 1}, {"depths": "odd"}]
)
def test_plans_that_cannot_be_used_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(values))):
        FitPlan(**{"steps": 1, **values})  # type: ignore[arg-type]


def test_usual_taps_spread_over_the_target() -> None:
    assert usual_taps("dspark", 30) == (1, 8, 14, 20, 27)
    assert usual_taps("eagle3", 30) == (1, 14, 27)
    assert usual_taps("medusa", 30) == (29,)


def test_a_fresh_network_is_calm_and_may_begin_with_the_targets_layers(tmp_path: Path) -> None:
    target = open_target(str(write_tiny_model(tmp_path, "llama", 0)))
    plan = NetPlan(draft_vocab_size=60, tap_layers=(0, 2), has_head_norms=False, mask_token_id=5)
    counts = torch.arange(VOCAB)
    net = begin_net(plan, target, counts, seed=1)
    lines = torch.randn(64, HIDDEN) * net.state_dict()["norm.weight"]
    assert float((lines @ net.lm_head.weight.T).std()) < 1.3
    assert net.state_dict()["t2d"].nonzero().flatten().tolist() == list(range(VOCAB - 60, VOCAB))
    copied = begin_net(replace(plan, start="target"), target, counts, seed=1).state_dict()
    torch.testing.assert_close(copied["layers.1.mlp.up_proj.weight"], target.layer(2)["mlp.up_proj.weight"])
    torch.testing.assert_close(copied["norm.weight"], target.final_norm)


def test_the_scale_of_taps_folds_into_the_weights_that_read_them() -> None:
    scale, fc, mask = torch.rand(6) + 0.5, torch.randn(4, 6), torch.randn(1, 1, 6)
    taps = torch.randn(3, 6) * scale
    folded = fold_scale({"fc.weight": fc, "mask_hidden": mask}, scale)
    torch.testing.assert_close(taps @ folded["fc.weight"].T, (taps / scale) @ fc.T)
    torch.testing.assert_close(folded["mask_hidden"] @ folded["fc.weight"].T, mask @ fc.T)


def test_muon_steps_along_orthogonal_matrices() -> None:
    torch.manual_seed(0)
    for shape in ((6, 20), (20, 6)):
        values = torch.linalg.svdvals(orthogonalised(torch.randn(shape)))
        assert 0.6 < float(values.min()) <= float(values.max()) < 1.3


def test_a_damaged_checkpoint_is_refused_by_name(tmp_path: Path) -> None:
    checkpoint = Checkpoint(step=3, net={"a": torch.ones(2)}, optimiser={"b": torch.zeros(1)}, scale=None, facts={})
    write_checkpoint(tmp_path, checkpoint)
    found = read_checkpoint(tmp_path)
    assert found is not None
    assert (found.step, found.net["a"].tolist(), found.scale) == (3, [1.0, 1.0], None)
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ModelError, match=r"checkpoint\.safetensors is damaged"):
        read_checkpoint(tmp_path)


def test_a_history_cut_off_in_the_middle_goes_on(tmp_path: Path) -> None:
    (tmp_path / HISTORY).write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.5}\n{"step": 3, "lo')
    history = History(tmp_path)
    history.begin(1)
    history.add({"step": 2, "loss": 1.4})
    assert [entry["loss"] for entry in history.read()] == [2.0, 1.4]
