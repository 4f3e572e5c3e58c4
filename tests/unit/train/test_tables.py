"""Tables are counted on answers, of one target, and of the sources that were asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import AlignmentError, ConfigError
from paradraft.drafters.table.file import read_table
from paradraft.drafters.table.lookup import TableLookup
from paradraft.train.manifest import Manifest
from paradraft.train.shards import Captured, ShardWriter
from paradraft.train.tables import TableOptions, build_table

MANIFEST = Manifest(
    target={"name": "tiny", "tokenizer_sha256": "ab"},
    tap_layers=(0,),
    hidden_size=4,
    vocab_size=50,
    sources=("gsm8k", "self"),
)


def text(source: str, prompt: list[int], answer: list[int]) -> Captured:
    return Captured(ids=ints(prompt + answer), prompt_len=len(prompt), taps=None, source=source)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    writer = ShardWriter(tmp_path / "shards", MANIFEST)
    writer.write(0, [text("self", [1, 2], [3, 4, 5]), text("gsm8k", [1, 2], [30, 40])])
    writer.write(1, [text("self", [9, 2], [3, 4, 6])])
    return tmp_path / "shards"


def test_answers_are_counted_with_the_prompt_as_context(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "answers.table"
    made = build_table([folder], path, TableOptions(orders=(1, 2), min_counts=(1, 1)))
    assert made.num_tokens == 8  # of the answers alone
    table = read_table(path, vocab_size=50)
    assert table.num_tokens == 8
    assert (table.origin.target, table.origin.tokenizer_sha256) == ("tiny", "ab")
    assert table.origin.sources == ("gsm8k", "self")
    assert len(TableLookup(table).lengths) == 2


def test_sources_can_be_chosen_and_unknown_ones_are_refused(tmp_path: Path, folder: Path) -> None:
    options = TableOptions(orders=(1,), min_counts=(1,), sources=("gsm8k",))
    assert build_table([folder], tmp_path / "one.table", options).num_tokens == 2
    with pytest.raises(ConfigError, match=r"'web'.*gsm8k, self"):
        build_table([folder], tmp_path / "two.table", replace(options, sources=("web",)))


def test_folders_of_one_target_are_counted_together_and_of_two_refused(tmp_path: Path, folder: Path) -> None:
    same, other = tmp_path / "same", tmp_path / "other"
    ShardWriter(same, MANIFEST).write(0, [text("self", [1], [2, 3])])
    ShardWriter(other, replace(MANIFEST, target={"name": "else"})).write(0, [text("self", [1], [2, 3])])
    assert build_table([folder, same], tmp_path / "a.table").num_tokens == 10
    with pytest.raises(AlignmentError, match="another target"):
        build_table([folder, other], tmp_path / "b.table")
    assert not (tmp_path / "b.table").exists()


def test_a_table_can_go_on_from_another_of_the_same_tokenizer(tmp_path: Path, folder: Path) -> None:
    first, grown = tmp_path / "first.table", tmp_path / "grown.table"
    build_table([folder], first)
    more, other = tmp_path / "more", tmp_path / "other"
    ShardWriter(more, replace(MANIFEST, sources=("web",))).write(0, [text("web", [1], [3, 4])])
    ShardWriter(other, replace(MANIFEST, target={"name": "tiny", "tokenizer_sha256": "cd"})).write(
        0, [text("self", [1], [3, 4])]
    )
    made = build_table([more], grown, TableOptions(begin_from=first))
    assert made.num_tokens == 10
    assert made.origin.sources == ("gsm8k", "self", "web")
    assert (
        TableLookup(read_table(grown)).shares([3], None)[4] > TableLookup(read_table(first)).shares([3], None)[4] * 0.9
    )
    with pytest.raises(AlignmentError, match="another tokenizer"):
        build_table([other], tmp_path / "bad.table", TableOptions(begin_from=first))


def test_a_size_limit_is_kept(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "small.table"
    build_table([folder], path, TableOptions(max_bytes=8192))
    assert path.stat().st_size < 8192 + 4096
    with pytest.raises(ConfigError, match="No folder"):
        build_table([], path)
