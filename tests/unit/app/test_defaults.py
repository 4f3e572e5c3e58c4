"""What drafts when nobody says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from paradraft.app import defaults
from paradraft.app.config import Config
from paradraft.app.defaults import TABLES, settled, shipped_table
from paradraft.core.errors import ConfigError
from paradraft.drafters.table.file import read_table
from paradraft.hub.assets import ASSETS

VOCABULARY = 49_152


def test_every_shipped_table_is_of_a_built_in_model_and_can_be_read():
    assert TABLES.keys() <= ASSETS.keys()
    for model in TABLES:
        table = read_table(shipped_table(model), vocab_size=VOCABULARY)
        assert table.num_tokens > 50_000
        assert table.origin.target == model
        assert table.origin.tokenizer_sha256


def test_the_built_in_model_drafts_with_its_table():
    chosen = settled(Config())
    assert chosen.drafter == "merged"
    assert chosen.draft_table == str(shipped_table("smollm2-135m"))


def test_another_model_drafts_without_a_table():
    chosen = settled(Config(model="folder"))
    assert (chosen.drafter, chosen.draft_table) == ("merged", "none")


def test_what_is_named_stays():
    named = Config(drafter="table", draft_table="mine.table", draft_network="mine", draft_sources=("suffix", "table"))
    assert settled(named) == named
    assert settled(Config(draft_table="mine.table")).draft_table == "mine.table"


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that ships a network for the built-in model."""
    monkeypatch.setattr(defaults, "files", lambda _: tmp_path)
    folder = tmp_path / "shipped" / defaults.NETWORKS["smollm2-135m"]
    folder.mkdir(parents=True)
    return folder


def test_the_built_in_model_drafts_with_the_network_that_ships_for_it_where_that_is_asked_for(shipped: Path):
    chosen = settled(Config(draft_network="auto"))
    assert chosen.draft_sources == ("suffix", "recent", "table", str(shipped))
    assert chosen.draft_network == str(shipped)
    assert settled(chosen) == chosen


@pytest.mark.parametrize("changes", [{}, {"draft_network": "auto", "model": "folder"}])
def test_no_network_drafts_unasked_or_for_another_model(shipped: Path, changes: dict[str, str]):
    chosen = settled(Config(**changes))
    assert chosen.draft_sources == ("suffix", "recent", "table")
    assert chosen.draft_network == "none"


def test_another_network_can_be_named_and_sources_without_one_have_none(shipped: Path):
    assert settled(Config(draft_network="mine")).draft_sources == ("suffix", "recent", "table", "mine")
    assert settled(Config(draft_network="mine", draft_sources=("suffix",))).draft_sources == ("suffix",)
    assert settled(Config(draft_network="mine", draft_sources=("mine", "network"))).draft_sources == ("mine",)


def test_nothing_but_a_network_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="names network alone"):
        settled(Config(draft_sources=("network",), draft_network="none"))


def test_settling_twice_changes_nothing():
    assert settled(settled(Config())) == settled(Config())
