"""What drafts when nobody says so."""

from __future__ import annotations

from paradraft.app.config import Config
from paradraft.app.defaults import TABLES, settled, shipped_table
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
    named = Config(drafter="table", draft_table="mine.table")
    assert settled(named) == named
    assert settled(Config(draft_table="mine.table")).draft_table == "mine.table"


def test_settling_twice_changes_nothing():
    assert settled(settled(Config())) == settled(Config())
