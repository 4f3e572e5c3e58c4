"""The files of own turns: made one by one, the same however they were interrupted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from paradraft.train.plan import CaptureOptions
from paradraft.train.ports import unwatched
from paradraft.train.prompts import OWN
from paradraft.train.turns import OwnTurns
from paradraft.train.units import Share
from support.authors import Author, conversing

OPTIONS = CaptureOptions(
    own_turns=8, openings=0.0, follow_ups=0.5, turns_unit=3, max_prompt_len=400, max_tokens=50, seed=2
)


def completed(folder: Path, author: Author, options: CaptureOptions = OPTIONS) -> list[tuple[tuple[str, str], ...]]:
    tasks = OwnTurns(folder, options).complete(author, Share(), unwatched)
    assert {task.source for task in tasks} == {OWN}
    return [task.messages for task in tasks]


def test_conversations_of_one_and_two_turns_are_kept_with_their_roles(tmp_path: Path) -> None:
    said = completed(tmp_path, Author(conversing))
    assert [messages[0][1] for messages in said] == [f"Tell me of the number {2 + at}" for at in range(8)]
    roles = {tuple(role for role, _ in messages) for messages in said}
    assert roles == {("user",), ("user", "assistant", "user")}
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"turns_000{at}.json" for at in range(3)]


def test_what_is_whole_is_not_asked_again(tmp_path: Path) -> None:
    said = completed(tmp_path, Author(conversing))
    idle = Author(conversing)
    assert completed(tmp_path, idle) == said
    assert not idle.asked


@pytest.mark.parametrize(
    "content", ['["cut', '["a turn of a former version"]', '[["a", "b"]]', '[["a", 1, "c"]]', "{}"]
)
def test_a_file_that_holds_no_conversations_is_made_anew(tmp_path: Path, content: str) -> None:
    said = completed(tmp_path, Author(conversing))
    (tmp_path / "turns_0001.json").write_text(content)
    assert completed(tmp_path, Author(conversing)) == said
    assert len(json.loads((tmp_path / "turns_0001.json").read_text())) == 3


def test_more_turns_leave_the_first_as_they_were(tmp_path: Path) -> None:
    few = completed(tmp_path / "few", Author(conversing), replace(OPTIONS, own_turns=6))
    assert completed(tmp_path / "more", Author(conversing))[:6] == few
