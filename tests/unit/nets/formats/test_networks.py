"""Real networks on their way through every layout: what comes back drafts the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from paradraft.nets.config import NetConfig
from paradraft.nets.folder.files import load_drafter_folder
from paradraft.nets.folder.saving import save_drafter_folder
from paradraft.nets.networks.build import build_net, restore_net
from paradraft.nets.networks.net import Net
from paradraft.nets.networks.records import TrainingBatch
from paradraft.nets.vocabulary import DraftVocabulary
from support.drafter_folders import DRAFT_VOCAB, VOCAB, WIDTH, card, drafter_config, tables

PLACES = (
    ("eagle3", ("native", "eagle", "speculators")),
    ("peagle", ("native", "eagle", "speculators")),
    ("dflash", ("native", "zlab", "speculators")),
    ("dspark", ("native", "deepspec", "speculators")),
    ("medusa", ("native", "medusa")),
)
EMBEDDING = torch.randn(VOCAB, WIDTH, generator=torch.Generator().manual_seed(1))
HEAD = torch.randn(VOCAB, WIDTH, generator=torch.Generator().manual_seed(2))


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))


def network(config: NetConfig) -> Net:
    """Return a network whose every parameter is random."""
    vocabulary = DraftVocabulary.of(torch.arange(3, VOCAB, 4)[:DRAFT_VOCAB], VOCAB)
    net = build_net(config, EMBEDDING, HEAD[vocabulary.ids], vocabulary)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return net


def drafts(net: Net) -> Tensor:
    generator = torch.Generator().manual_seed(4)
    batch = TrainingBatch(
        ids=torch.randint(VOCAB, (12,), generator=generator),
        taps=torch.randn(12, net.config.num_taps * WIDTH, generator=generator),
        anchors=torch.tensor([3, 6]),
        doc=torch.zeros(12, dtype=torch.int64),
    )
    with torch.no_grad():
        return net.draft_training(batch).logits


@pytest.mark.parametrize(("method", "layouts"), PLACES)
def test_what_was_trained_is_what_is_served_whatever_layout_it_went_through(
    method: str, layouts: tuple[str, ...], tmp_path: Path
) -> None:
    """98 % in training and 10 % in serving begins with a file that is read otherwise than it was written."""
    net = network(drafter_config(method))
    trained = drafts(net)
    assert trained.std() > 0
    folder: object = net
    for number, layout in enumerate((*layouts, "native")):
        out = save_drafter_folder(tmp_path / str(number), folder, card(), layout=layout)
        folder = load_drafter_folder(out)
        served = restore_net(folder.config, folder.state, EMBEDDING, HEAD)
        assert torch.equal(drafts(served), trained), layout


def test_a_learned_mask_drafts_the_same_after_the_way_through_an_embedding(tmp_path: Path) -> None:
    net = network(drafter_config("dspark", has_mask_embedding=True))
    out = save_drafter_folder(tmp_path / "out", net, None, layout="speculators", tables=tables(EMBEDDING, HEAD))
    loaded = load_drafter_folder(out)
    assert torch.equal(drafts(restore_net(loaded.config, loaded.state, EMBEDDING, HEAD)), drafts(net))
