"""Engines as users set them up: pairs of models, windows, revisions; what is configured is what runs."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paradraft import LLM, SamplingParams
from paradraft.app import drafters as table
from paradraft.app.config import Config
from paradraft.app.drafters import METHODS
from paradraft.app.guessers import COMBINING
from paradraft.core.arrays import ints
from paradraft.core.errors import AlignmentError, ConfigError, ModelError
from paradraft.drafters.merged import MergedDrafter
from paradraft.drafters.native_merged import NativeMergedDrafter
from paradraft.drafters.table.count import CountedText, count_table
from paradraft.drafters.table.file import write_table
from paradraft.drafters.table.layout import Origin
from paradraft.models.load import LoadedModel, load_model
from paradraft.models.tiny import write_tiny_model
from paradraft.native.library import LIBRARY_VARIABLE
from paradraft.verify.rules import make_rule
from support.native import needs_native

GREEDY = SamplingParams(temperature=0.0, max_tokens=24, ignore_eos=True)
PROMPTS = ["one two one two one two one", "a b a b a b a b", "x y z x y z x y z x"]


def engine(folder: Path, **options: Any) -> LLM:
    return LLM(str(folder), **{"dtype": "fp32", "kv_tokens": 4096, "seed": 1, **options})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "target", "llama", 1)


def move_a_token(folder: Path) -> Path:
    """Swap two tokens of a folder's vocabulary, as another revision might."""
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary["p"], vocabulary["q"] = vocabulary["q"], vocabulary["p"]
    path.write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("drafter", [*(name for name in METHODS if name != "none"), *COMBINING, "itself"])
@pytest.mark.parametrize("rule", ["coupled", "rejection", "block", "recursive"])
def test_every_method_by_its_name_drafts_accepts_and_changes_nothing(folder: Path, drafter: str, rule: str) -> None:
    named = str(folder) if drafter == "itself" else drafter
    with engine(folder, drafter="none") as plain, engine(folder, drafter=named, rule=rule, adaptive=False) as drafted:
        expected = plain.generate(PROMPTS, GREEDY)
        found = drafted.generate(PROMPTS, GREEDY)
        assert [result.text for result in found] == [result.text for result in expected]
        assert sum(result.choices[0].stats.drafted for result in found) > 0
        assert sum(result.choices[0].stats.accepted for result in found) > 0


@pytest.mark.parametrize("family", ["mistral", "qwen2"])
@pytest.mark.parametrize("drafter", ["none", "suffix", "itself"])
def test_a_warm_prefix_longer_than_the_window_changes_nothing(tmp_path: Path, family: str, drafter: str) -> None:
    folder = write_tiny_model(tmp_path / family, family, 1)
    prompt = [3 + at * at % 250 for at in range(50)]
    named = str(folder) if drafter == "itself" else drafter
    with engine(folder, drafter=named) as llm:
        cold, warm = (llm.generate([prompt], GREEDY)[0].choices[0] for _ in range(2))
        assert (cold.stats.cached_prompt_tokens, warm.stats.cached_prompt_tokens) == (0, 48)
        assert warm.token_ids == cold.token_ids


def test_the_map_is_made_of_the_tokenizers_that_were_named_and_not_of_their_namesakes(
    folder: Path, tmp_path: Path
) -> None:
    moved = move_a_token(write_tiny_model(tmp_path / "moved", "llama", 1))
    with pytest.raises(AlignmentError, match="2 of 259 ids differ"):
        engine(folder, drafter=str(moved))
    with engine(folder, drafter="none") as plain, engine(folder, drafter=str(moved), draft_vocabulary="mapped") as llm:
        drafter = llm.engine.drafter._inner
        p, q = (plain.tokenizer.encode(text, add_special=False)[0] for text in "pq")
        assert drafter._to_target[[p, q]].tolist() == [q, p]
        assert llm.generate(PROMPTS, GREEDY)[0].text == plain.generate(PROMPTS, GREEDY)[0].text


def test_the_drafter_has_a_revision_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []

    def load(source: str, *, revision: str | None = None, **options: Any) -> LoadedModel:
        asked.append((source, revision))
        return load_model(str(folder), **options)

    monkeypatch.setattr(table, "load_model", load)
    engine(folder, drafter="owner/name", draft_revision="abc").close()
    engine(folder, drafter="owner/name").close()
    assert asked == [("owner/name", "abc"), ("owner/name", None)]


def test_engines_built_one_after_another_draft_alike(folder: Path) -> None:
    counts = set()
    for _ in range(10):
        with engine(folder, drafter="ngram", kv_tokens=256) as llm:
            stats = llm.generate(PROMPTS[0], GREEDY)[0].choices[0].stats
            counts.add((stats.drafted, stats.accepted))
    assert len(counts) == 1
    assert min(counts.pop()) > 0


def test_the_start_up_line_counts_the_drafters_memory(folder: Path) -> None:
    big = write_tiny_model(folder.parent / "big", "llama", 1, {"intermediate_size": 4096})
    with engine(folder, drafter=str(big)) as llm:
        extra = llm.engine.drafter.needs.extra_bytes
        assert extra > 3 * 4 * 3 * 48 * 4096
        assert f"drafter model ({extra / 1e6:.0f} MB)" in llm.summary()


def counted_on(text: str, folder: Path, **origin: str) -> str:
    """Write a table that was counted on a text and return its path."""
    with engine(folder, drafter="none") as llm:
        ids = llm.tokenizer.encode(text, add_special=False)
        table = count_table([CountedText(ids=ints(ids))], vocab_size=llm.limits.vocab_size, origin=Origin(**origin))
    write_table(table, folder.parent / "table.bin")
    return str(folder.parent / "table.bin")


@pytest.mark.parametrize("drafter", ["table", "merged", "ladder"])
def test_a_table_from_a_file_drafts_from_the_first_token(folder: Path, drafter: str) -> None:
    with engine(folder, drafter="none") as plain:
        expected = plain.generate("one two", GREEDY)[0]
    path = counted_on("one two" + expected.text * 3, folder)
    options = {"draft_table": path, "draft_sources": ["table"], "adaptive": False, "draft_learned_contexts": 0}
    with engine(folder, drafter=drafter, **options) as llm:
        found = llm.generate("one two", GREEDY)[0]
    assert found.text == expected.text
    assert found.choices[0].stats.accepted > 0


def test_a_table_of_another_tokenizer_is_refused(folder: Path) -> None:
    with pytest.raises(AlignmentError, match="counted with the tokenizer abc"):
        engine(folder, drafter="table", draft_table=counted_on("a b", folder, tokenizer_sha256="abc"))


def test_a_table_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"none\.bin"):
        engine(folder, drafter="merged", draft_table="none.bin")


def test_a_source_that_cannot_guess_is_named_with_those_that_can(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"'shuffle', which is no source.*ngram, suffix, recent, table"):
        engine(folder, drafter="merged", draft_sources=["suffix", "shuffle"])


@pytest.mark.parametrize("sources", [[], ["suffix", "suffix"], "suffix", [""]])
def test_lists_of_sources_that_make_no_sense_are_refused(sources: object) -> None:
    with pytest.raises(ConfigError, match="draft_sources"):
        Config(draft_sources=sources)


@needs_native
@pytest.mark.parametrize("has_library", [True, False])
def test_the_merged_tree_is_drafted_natively_where_the_library_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, has_library: bool
) -> None:
    target = load_model(str(folder), num_pages=8, page_size=16)
    config = Config(
        model=str(folder), drafter="merged", draft_sources=("suffix", "recent", "table"), draft_table="none"
    )
    if not has_library:
        monkeypatch.setenv(LIBRARY_VARIABLE, str(folder / "nothing.so"))
    with ExitStack() as loaded:
        found = table.build_drafter(config, target, make_rule("coupled"), loaded, {}).drafter
        assert isinstance(found, NativeMergedDrafter if has_library else MergedDrafter)
        mixed = replace(config, draft_sources=("ngram", "suffix"))
        assert isinstance(table.build_drafter(mixed, target, make_rule("coupled"), loaded, {}).drafter, MergedDrafter)
    target.target.close()
