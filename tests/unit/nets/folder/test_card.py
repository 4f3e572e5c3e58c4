from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from paradraft.core.errors import AlignmentError, ModelError
from paradraft.nets.folder.card import Card, check_card, read_card, write_card
from support.drafter_folders import card, drafter_config, facts

CONFIG = drafter_config("dspark")


def test_a_card_comes_back_as_it_was(tmp_path: Path) -> None:
    write_card(tmp_path / "card.json", card())
    assert read_card(tmp_path / "card.json") == card()
    assert read_card(tmp_path / "none.json") is None


def test_a_card_of_little_is_a_card(tmp_path: Path) -> None:
    write_card(tmp_path / "card.json", Card(target=facts(sha256=None, template_sha256=None)))
    assert read_card(tmp_path / "card.json") == Card(target=facts(sha256=None, template_sha256=None))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "later version"),
        ({"target": {"name": "toy"}}, "hidden_size is missing"),
        ({"target": []}, "name is missing"),
        ({"tap_layers": [1, -2]}, "tap_layers=-2"),
        ({"block_size": 2**40}, "block_size"),
        ({"acceptance": {"tau": "high"}}, "tau='high'"),
        ({"sources": ["the web"]}, r"sources\[0\]"),
        ({"licence": 3}, "licence=3"),
    ],
)
def test_a_value_that_cannot_be_right_is_refused_by_name(change: dict[str, object], words: str, tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    write_card(path, card())
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ModelError, match=words):
        read_card(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_size": 64}, "hidden states of 32 values, the target's have 64"),
        ({"num_layers": 11}, "made for 12 layers, the target has 11"),
        ({"vocab_size": 100}, "96 ids, the target's has 100"),
        ({"tokenizer_sha256": "d" * 64}, "tokenizers give ids other meanings"),
        ({"sha256": "d" * 64, "template_sha256": None}, "weights and chat template are others"),
    ],
)
def test_a_drafter_for_another_target_is_refused_with_the_reason(change: dict[str, object], words: str) -> None:
    with pytest.raises(AlignmentError, match=words):
        check_card(card(), CONFIG, facts(**change))


def test_a_target_that_differs_a_little_gets_a_word() -> None:
    assert check_card(card(), CONFIG, facts()) == ()
    [note] = check_card(card(), CONFIG, facts(sha256="d" * 64))
    assert "weights" in note
    [note] = check_card(card(), CONFIG, facts(template_sha256="d" * 64))
    assert "chat template" in note
    assert check_card(card(), CONFIG, facts(tokenizer_sha256=None, sha256=None)) == ()


def test_a_card_of_another_drafter_is_refused() -> None:
    with pytest.raises(ModelError, match="tap_layers"):
        check_card(card(tap_layers=(1, 4, 9)), CONFIG, facts())
    with pytest.raises(ModelError, match="method='dflash'"):
        check_card(card(method="dflash"), CONFIG, facts())
    assert check_card(replace(card(), method="dspark", tap_layers=CONFIG.tap_layers), CONFIG, facts()) == ()
