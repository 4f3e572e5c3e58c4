from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from paradraft.core.errors import ConfigError
from paradraft.hub.assets import is_cached
from paradraft.hub.prompts import Message, Prompt, read_prompts


def write(tmp_path: Path, *records: object, name: str = "set.jsonl") -> str:
    file = tmp_path / name
    file.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"prompt": "Hi"}, Prompt(id="1", category="", turns=("Hi",))),
        ({"id": "a", "question": "Why?"}, Prompt(id="a", category="", turns=("Why?",))),
        (
            {"question_id": 81, "category": "maths", "turns": ["One", "Two"]},
            Prompt(id="81", category="maths", turns=("One", "Two")),
        ),
        (
            {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]},
            Prompt(id="1", category="", turns=("Hi",), opening=(Message(role="system", content="Be brief."),)),
        ),
    ],
    ids=["prompt", "question", "turns", "messages"],
)
def test_each_form_of_record_is_read(tmp_path: Path, record: dict[str, object], expected: Prompt) -> None:
    assert read_prompts(write(tmp_path, record)) == [expected]


def test_the_messages_of_a_prompt_end_with_its_first_turn(tmp_path: Path) -> None:
    said = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bye"},
    ]
    assert read_prompts(write(tmp_path, {"messages": said}))[0].messages() == said


def test_plain_text_is_a_prompt_a_line(tmp_path: Path) -> None:
    (tmp_path / "set.txt").write_text("First one\r\n\n  Second one  \n", encoding="utf-8")
    assert [(prompt.id, prompt.text) for prompt in read_prompts(str(tmp_path / "set.txt"))] == [
        ("1", "First one"),
        ("3", "Second one"),
    ]


def test_compressed_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "set.jsonl.gz").write_bytes(gzip.compress(b'{"task_id": "T/1", "prompt": "def f():"}\n'))
    assert read_prompts(str(tmp_path / "set.jsonl.gz"))[0].id == "T/1"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{oops", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ('{"answer": "x"}', "no prompt among the keys answer"),
        ('{"prompt": 3}', "prompt=3 is not a text"),
        ('{"prompt": ""}', "prompt='' is not a text"),
        ('{"turns": []}', r"turns=\[\] is not a list of texts"),
        ('{"messages": [{"role": "assistant", "content": "x"}]}', "the last message is the assistant's"),
        ('{"messages": ["x"]}', "messages is not a list of objects"),
    ],
)
def test_a_bad_line_is_named_with_its_number(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "set.jsonl").write_text('{"prompt": "fine"}\n\n' + line, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"set.jsonl, line 3: {reason}"):
        read_prompts(str(tmp_path / "set.jsonl"))


def test_a_file_without_prompts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no prompts"):
        read_prompts(write(tmp_path))


def test_a_missing_file_lists_the_built_in_sets(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file.* mt-bench, humaneval, gsm8k-100"):
        read_prompts(str(tmp_path / "missing.jsonl"))


@pytest.mark.parametrize(("name", "content"), [("a.txt", b"\xff\xfe\xff"), ("a.jsonl.gz", b"not gzip")])
def test_what_is_no_text_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_prompts(str(tmp_path / name))


def test_a_model_is_no_prompt_set() -> None:
    with pytest.raises(ConfigError, match="'smollm2-135m' is not a prompt set"):
        read_prompts("smollm2-135m")


@pytest.mark.parametrize(
    ("name", "count", "category"), [("mt-bench", 80, "writing"), ("humaneval", 164, ""), ("gsm8k-100", 100, "")]
)
def test_the_built_in_sets_are_read_whole(name: str, count: int, category: str) -> None:
    if not is_cached(name):
        pytest.skip(f"{name} is not in the cache; make setup brings it")
    prompts = read_prompts(name)
    assert (len(prompts), prompts[0].category) == (count, category)
    assert len({prompt.id for prompt in prompts}) == count
