"""Adapters learn a domain, leave the drafter's own weights alone, and merge into them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from paradraft.core.arrays import IntArray, ints
from paradraft.core.errors import ConfigError
from paradraft.models.tiny import write_tiny_model
from paradraft.nets.folder.files import load_drafter_folder
from paradraft.nets.networks.build import restore_net
from paradraft.nets.networks.net import Net
from paradraft.train.adapt import AdapterPlan, open_adaptation
from paradraft.train.beginning import NetPlan
from paradraft.train.examples import Examples
from paradraft.train.fit import Rhythm
from paradraft.train.fit_plan import FitPlan
from paradraft.train.making import CardFacts, FitSources, export_fit, open_fit
from paradraft.train.shards import Captured, ShardWriter
from paradraft.train.simulate import expected_length
from paradraft.train.target import open_target
from support.captures import MANIFEST, rule_taps, write_capture

RHYTHM = Rhythm(report=1000, measure=1000, save=1000, held_out=4)
METHODS = ("dspark", "peagle", "medusa")


def domain_text(length: int, start: int) -> IntArray:
    """Return a text that follows another rule than the captures of the base."""
    ids = [start % 37 + 10]
    while len(ids) < length:
        ids.append((3 * ids[-1] + 11) % 37 + 10)
    return ints(ids)


def write_domain(folder: Path) -> Path:
    texts = [domain_text(30, number) for number in range(24)]
    sequences = [Captured(ids=ids, prompt_len=4, taps=rule_taps(ids), source="rule") for ids in texts]
    ShardWriter(folder, MANIFEST).write(0, sequences)
    return folder


def network(folder: Path, target: Path) -> Net:
    opened = open_target(str(target))
    loaded = load_drafter_folder(folder).with_rows(opened.tables)
    return restore_net(loaded.config, loaded.state, opened.embedding, opened.head).eval()


@pytest.mark.parametrize("method", METHODS)
def test_a_drafter_is_adapted_to_a_domain_and_merged(method: str, tmp_path: Path) -> None:
    target = write_tiny_model(tmp_path / "target", "llama", 0)
    taps = (2,) if method == "medusa" else (0, 1, 2)
    net_plan = NetPlan(
        method=method, block_size=2, draft_vocab_size=60, markov_rank=0, mask_token_id=5, tap_layers=taps
    )
    plan = FitPlan(steps=50, sequences=3, anchors=10, lr=1e-2, hold_out=6)
    sources = FitSources(target=str(target), shards=write_capture(tmp_path / "shards"), folder=tmp_path / "run")
    open_fit(sources, net_plan, plan, device=torch.device("cpu")).run(RHYTHM, lambda _: None)
    base = export_fit(tmp_path / "run", tmp_path / "base", target=str(target), facts=CardFacts())
    domain, adapter = write_domain(tmp_path / "domain"), AdapterPlan(rank=8, alpha=16.0)
    fit = open_adaptation(base, domain, tmp_path / "adapt", target=str(target), adapter=adapter, plan=plan)
    own = {name for name, weight in fit.task.net.named_parameters() if weight.requires_grad}
    assert own
    assert all("adapter" in name for name in own)
    before = {name: weight.clone() for name, weight in fit.task.net.state_dict().items()}
    fit.run(RHYTHM, lambda _: None)
    after = fit.task.net.state_dict()
    assert {name for name in before if not torch.equal(before[name], after[name])} == own
    merged = export_fit(tmp_path / "adapt", tmp_path / "merged", target=str(target), facts=CardFacts())
    examples = Examples(domain, taps, 2, hold_out=6)
    texts = [examples.read(at) for at in examples.held_out]
    found = expected_length(network(merged, target), texts, None)
    assert found > expected_length(network(base, target), texts, None) + 0.3
    fit.task.net.eval()
    assert found == pytest.approx(expected_length(fit.task.net, texts, fit.task.scale), abs=0.05)  # type: ignore[arg-type]
    again = open_adaptation(base, domain, tmp_path / "adapt", target=str(target), adapter=adapter, plan=plan)
    assert again.step == plan.steps


@pytest.mark.parametrize("values", [{"rank": 0}, {"alpha": 0.0}])
def test_adapters_that_cannot_be_used_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(values))):
        AdapterPlan(**values)  # type: ignore[arg-type]
