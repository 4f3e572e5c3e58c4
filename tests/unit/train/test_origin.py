"""A fit begins with the weights of another fit or of a drafter folder, and says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from paradraft.core.errors import AlignmentError, ModelError
from paradraft.models.tiny import write_tiny_model
from paradraft.train.beginning import NetPlan
from paradraft.train.draft_task import DraftPiece
from paradraft.train.fit import Fit
from paradraft.train.fit_plan import FitPlan
from paradraft.train.fitted import fitted_net
from paradraft.train.making import CardFacts, FitSources, export_fit, open_fit
from paradraft.train.rhythm import Rhythm
from support.captures import write_capture

NET = NetPlan(
    block_size=3, draft_vocab_size=60, markov_rank=8, mask_token_id=5, intermediate_size=64, tap_layers=(0, 1, 2)
)
PLAN = FitPlan(steps=3, sequences=2, anchors=8, lr=5e-3, hold_out=6)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("target"), "llama", 0)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_capture(tmp_path_factory.mktemp("shards"))


@pytest.fixture(scope="module")
def run(target: Path, shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    finish(opened(target, shards, folder, None))
    return folder


@pytest.fixture(scope="module")
def slim(target: Path, shards: Path, run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a drafter folder that leaves its head to the target."""
    folder = export_fit(
        run, tmp_path_factory.mktemp("made") / "slim", target=str(target), facts=CardFacts(shards=shards)
    )
    assert json.loads((folder / "config.json").read_text())["from_target"] == ["lm_head.weight"]
    return folder


def opened(
    target: Path, shards: Path, folder: Path, begin_from: Path | None, net: NetPlan = NET, plan: FitPlan = PLAN
) -> Fit[DraftPiece]:
    sources = FitSources(target=str(target), shards=shards, folder=folder, begin_from=begin_from)
    return open_fit(sources, net, plan, device=torch.device("cpu"))


def finish(fit: Fit[DraftPiece]) -> None:
    fit.run(Rhythm(report=10, measure=10, save=10), lambda _: None)


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=1e-5, atol=1e-6, msg=name)


@pytest.mark.parametrize("kind", ["run", "slim"])
def test_a_fit_begins_with_the_weights_of_a_fit_or_a_drafter(
    kind: str, target: Path, shards: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    fit = opened(target, shards, tmp_path, request.getfixturevalue(kind))
    fit.save()
    assert fit.step == 0
    same(dict(fitted_net(tmp_path).state), dict(fitted_net(request.getfixturevalue("run")).state))
    assert not fit._optimiser.state()  # type: ignore[attr-defined]


def test_taps_of_other_sizes_change_nothing_about_what_it_begins_with(
    target: Path, slim: Path, run: Path, tmp_path: Path
) -> None:
    own = write_capture(tmp_path / "shards", num_texts=9, length=14, shard=1)
    fit = opened(target, own, tmp_path / "run", slim)
    fit.save()

    same(dict(fitted_net(tmp_path / "run").state), dict(fitted_net(run).state))


def test_more_key_heads_begin_as_copies_and_say_the_same(
    target: Path, shards: Path, slim: Path, tmp_path: Path
) -> None:
    narrow, wide = (
        opened(target, shards, tmp_path / str(heads), slim, replace(NET, num_key_heads=heads)) for heads in (2, 6)
    )
    assert (
        wide.task.net.get_parameter("layers.0.self_attn.v_proj.weight").shape[0]
        == 3 * narrow.task.net.get_parameter("layers.0.self_attn.v_proj.weight").shape[0]
    )
    piece = narrow.task.prepare(narrow._examples.read(0), 0)  # type: ignore[attr-defined]
    with torch.no_grad():
        batch = piece.slots.batch
        said, again = (fit.task.net.draft_training(batch).logits for fit in (narrow, wide))  # type: ignore[operator]
    torch.testing.assert_close(said, again, rtol=1e-4, atol=1e-5)


def test_a_dflash_begins_as_a_dspark_without_its_correction(
    target: Path, shards: Path, slim: Path, tmp_path: Path
) -> None:
    corrected = opened(target, shards, tmp_path / "dspark", slim)
    bare = opened(target, shards, tmp_path / "dflash", slim, replace(NET, method="dflash", markov_rank=0))
    kept = {name: tensor for name, tensor in corrected.task.net.named_parameters() if "_head." not in name}
    same(dict(bare.task.net.named_parameters()), kept)
    assert kept.keys() < dict(corrected.task.net.named_parameters()).keys()


def test_the_card_says_what_a_drafter_was_begun_from_also_after_a_stop(
    target: Path, shards: Path, slim: Path, tmp_path: Path
) -> None:
    finish(opened(target, shards, tmp_path / "run", slim))
    again = opened(target, shards, tmp_path / "run", slim)
    assert again.step == PLAN.steps
    again.save()
    made = export_fit(tmp_path / "run", tmp_path / "drafter", target=str(target), facts=CardFacts())
    said = json.loads((made / "card.json").read_text())["training"]["begun_from"]
    card = json.loads((slim / "card.json").read_text())
    assert said["name"] == "slim"
    assert said["weights_sha256"] == card["weights_sha256"]
    assert said["sources"] == card["sources"] != []
    third = opened(target, shards, tmp_path / "third", tmp_path / "run")
    third.save()
    twice = export_fit(tmp_path / "third", tmp_path / "twice", target=str(target), facts=CardFacts())
    begun = json.loads((twice / "card.json").read_text())["training"]["begun_from"]
    assert (begun["name"], begun["steps"], begun["begun_from"]["name"]) == ("run", PLAN.steps, "slim")


@pytest.mark.parametrize("kind", ["run", "slim"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "dflash"}, "method='dspark', and this fit method='dflash'"),
        ({"markov_rank": 4}, "markov_rank=8, and this fit markov_rank=4"),
        ({"draft_vocab_size": 50}, "draft_vocab_size=60, and this fit draft_vocab_size=50"),
        ({"tap_layers": (0, 1)}, "tap_layers"),
        ({"num_layers": 1}, "num_layers=2, and this fit num_layers=1"),
        ({"num_key_heads": 1}, "num_key_heads=2, and this fit num_key_heads=1"),
    ],
)
def test_another_method_shape_or_vocabulary_is_refused_by_name(
    kind: str,
    changes: dict[str, object],
    message: str,
    target: Path,
    shards: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    other = replace(NET, **changes)  # type: ignore[arg-type]
    with pytest.raises(AlignmentError, match=message):
        opened(target, shards, tmp_path, request.getfixturevalue(kind), other)
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_a_drafter_of_another_target_is_refused(slim: Path, shards: Path, tmp_path: Path) -> None:
    other = write_tiny_model(tmp_path / "other", "llama", 9)
    with pytest.raises(AlignmentError, match="leaves rows to the weights"):
        opened(other, shards, tmp_path / "run", slim)


def test_a_folder_that_holds_neither_is_refused(target: Path, shards: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="neither a fit nor a drafter"):
        opened(target, shards, tmp_path / "run", tmp_path)
