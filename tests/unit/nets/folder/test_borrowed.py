"""Rows that are the target's stay with the target, and come back bit by bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from paradraft.core.errors import AlignmentError, ModelError
from paradraft.nets.folder.borrowed import require_lender
from paradraft.nets.folder.files import load_drafter_folder
from paradraft.nets.folder.saving import save_drafter_folder
from support.drafter_folders import VOCAB, WIDTH, Weights, card, drafter, facts, tables

HEAD, EMBEDDING = "lm_head.weight", "embed_tokens.weight"
FILES = ("config.json", "model.safetensors", "card.json")


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))


def table(seed: int = 9) -> Tensor:
    """Return a table of the target's, in the type that such files have."""
    return torch.randn(VOCAB, WIDTH, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


EMBEDDING_ROWS, HEAD_ROWS = table(1), table(2)
TABLES = tables(EMBEDDING_ROWS, HEAD_ROWS)


def lent(method: str = "dspark", **changes: object) -> Weights:
    """Return a drafter whose tables are the target's, as training leaves them: in fp32."""
    net = drafter(method, **changes)
    ids = net.tensors["d2t"] + torch.arange(net.config.draft_vocab_size)
    net.tensors[HEAD] = HEAD_ROWS[ids].float()
    if EMBEDDING in net.tensors:
        net.tensors[EMBEDDING] = EMBEDDING_ROWS.float()
    return net


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("method", ["dflash", "dspark", "eagle3", "peagle", "medusa"])
def test_a_lean_folder_becomes_the_whole_one_byte_by_byte_and_lean_again(
    method: str, dtype: str, tmp_path: Path
) -> None:
    net = lent(method, has_own_embedding=method == "eagle3")
    lean = save_drafter_folder(tmp_path / "lean", net, card(), dtype=dtype, tables=TABLES)
    whole = save_drafter_folder(tmp_path / "whole", net, card(), dtype=dtype, tables=TABLES, is_whole=True)
    loaded = load_drafter_folder(lean)
    assert loaded.from_target == ({HEAD, EMBEDDING} if method == "eagle3" else {HEAD})
    assert not loaded.from_target & loaded.state.keys()
    assert not load_drafter_folder(whole).from_target
    grown = save_drafter_folder(tmp_path / "grown", loaded.with_rows(TABLES), loaded.card, tables=TABLES, is_whole=True)
    cut = save_drafter_folder(tmp_path / "cut", load_drafter_folder(whole), loaded.card, tables=TABLES)
    for name in FILES:
        assert (grown / name).read_bytes() == (whole / name).read_bytes()
        assert (cut / name).read_bytes() == (lean / name).read_bytes()


@pytest.mark.parametrize("layout", ["speculators", "deepspec"])
def test_layouts_of_others_always_hold_every_row(layout: str, tmp_path: Path) -> None:
    loaded = load_drafter_folder(save_drafter_folder(tmp_path / "lean", lent(), card(), tables=TABLES))
    out = save_drafter_folder(tmp_path / "out", loaded.with_rows(TABLES), loaded.card, layout=layout, tables=TABLES)
    assert torch.equal(load_drafter_folder(out).state[HEAD], lent().tensors[HEAD])


def test_rows_that_were_trained_are_stored(tmp_path: Path) -> None:
    net = lent()
    net.tensors[HEAD][3, 4] += 0.01
    loaded = load_drafter_folder(save_drafter_folder(tmp_path / "out", net, card(), tables=TABLES))
    assert not loaded.from_target
    assert torch.equal(loaded.state[HEAD], net.tensors[HEAD])


@pytest.mark.parametrize("said", [None, card(target=facts(sha256=None))], ids=["no card", "no hash"])
def test_nothing_is_left_to_a_target_that_no_card_names(said: object, tmp_path: Path) -> None:
    out = save_drafter_folder(tmp_path / "out", lent(), said, tables=TABLES)
    assert not load_drafter_folder(out).from_target


def test_rows_are_given_by_no_other_weights_than_those_they_were_left_to() -> None:
    require_lender(card(), facts())
    for other in (facts(sha256="d" * 64), facts(sha256=None)):
        with pytest.raises(AlignmentError, match="leaves rows to the weights aaaaaaaaaaaa"):
            require_lender(card(), other)


def test_tables_of_another_size_are_refused(tmp_path: Path) -> None:
    loaded = load_drafter_folder(save_drafter_folder(tmp_path / "out", lent(), card(), tables=TABLES))
    small = HEAD_ROWS[1:]
    with pytest.raises(ModelError, match=r"shape \[95, 32\]"):
        loaded.with_rows(tables(small, small))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["fc.weight"], "leaves fc.weight to its target, which has none"),
        ([EMBEDDING], "leaves embed_tokens.weight to its target, which has none"),
        ([], "lm_head.weight is missing"),
        ("lm_head.weight", "not a list of texts"),
    ],
)
def test_a_folder_that_leaves_out_what_it_cannot_is_refused(names: object, words: str, tmp_path: Path) -> None:
    out = save_drafter_folder(tmp_path / "out", lent(), card(), tables=TABLES)
    path = out / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "from_target": names}))
    with pytest.raises(ModelError, match=words):
        load_drafter_folder(out)


def test_a_folder_that_holds_what_it_says_it_leaves_out_is_refused(tmp_path: Path) -> None:
    out = save_drafter_folder(tmp_path / "out", lent(), card(), tables=TABLES, is_whole=True)
    path = out / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "from_target": [HEAD]}))
    with pytest.raises(ModelError, match=r"holds lm_head\.weight, and says that it leaves it"):
        load_drafter_folder(out)
