from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from paradraft.core.errors import ModelError
from paradraft.models.tiny import write_tiny_model
from paradraft.models.tokenizer import load_tokenizer
from support.vocabularies import read_fixture, write_byte_level, write_sentencepiece

TEXTS = [case["text"] for case in read_fixture("llama_cpp_pretokenizer_ids.json")["cases"]]


def write_tokenizer(folder: Path, source: Path, settings: dict[str, object]) -> Path:
    """Write a folder of the kind publishers make, with only the tokenizer in it."""
    tokenizer = load_tokenizer(source)
    folder.mkdir()
    tokenizer.backend.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **tokenizer.named, **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def edit(path: Path, change: dict[str, object]) -> None:
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(content | change))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "tiny", "llama", 0)


@pytest.mark.parametrize("write", [write_byte_level, write_sentencepiece], ids=["byte-level", "sentencepiece"])
def test_ids_and_texts_are_those_of_transformers(write: Callable[..., Path], tmp_path: Path) -> None:
    source = write(tmp_path / "a.gguf", **({"pre": "llama-bpe"} if write is write_byte_level else {}))
    place = write_tokenizer(tmp_path / "folder", source, {})
    ours, theirs = load_tokenizer(place), AutoTokenizer.from_pretrained(place)
    for text in TEXTS:
        for adds in (True, False):
            ids = theirs(text, add_special_tokens=adds)["input_ids"]
            assert ours.encode(text, add_special=adds) == ids
            assert ours.decode(ids, skip_special=adds) == theirs.decode(ids, skip_special_tokens=adds)


def test_the_folders_chat_template_renders_as_in_transformers(folder: Path) -> None:
    conversation = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]
    theirs = AutoTokenizer.from_pretrained(folder).apply_chat_template(
        conversation, tokenize=False, add_generation_prompt=True
    )
    assert load_tokenizer(folder).render_chat(conversation) == theirs


def test_a_template_file_goes_before_the_one_in_the_settings(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("from the file")
    assert load_tokenizer(folder).render_chat([{"role": "user", "content": "Hi"}]) == "from the file"


def test_of_several_named_templates_the_default_is_taken(folder: Path) -> None:
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]
    edit(folder / "tokenizer_config.json", {"chat_template": named})
    assert load_tokenizer(folder).chat_template == "plain"


@pytest.mark.parametrize(
    ("generation", "config", "eos_token", "expected"),
    [
        ({"eos_token_id": [1, 2]}, {"eos_token_id": 0}, "<|im_end|>", (1, 2)),
        ({}, {"eos_token_id": 0}, "<|im_end|>", (0, 2)),
        ({"eos_token_id": 1}, {}, None, (1,)),
        ({}, {"eos_token_id": None}, {"content": "<|im_end|>", "special": True}, (2,)),
        ({}, {"eos_token_id": None}, None, ()),
    ],
)
def test_an_answer_ends_where_the_settings_the_configuration_or_the_tokenizer_says(
    generation: dict[str, object],
    config: dict[str, object],
    eos_token: object,
    expected: tuple[int, ...],
    folder: Path,
) -> None:
    (folder / "generation_config.json").write_text(json.dumps(generation))
    (folder / "config.json").write_text(json.dumps(config))
    edit(folder / "tokenizer_config.json", {"eos_token": eos_token})
    assert load_tokenizer(folder).eos_ids == expected


def test_a_token_with_a_role_is_special_even_if_the_vocabulary_calls_it_text(folder: Path) -> None:
    edit(folder / "tokenizer_config.json", {"pad_token": "A"})
    tokenizer = load_tokenizer(folder)
    token = tokenizer.encode("A")[0]
    assert tokenizer.is_special(token)
    assert AutoTokenizer.from_pretrained(folder).decode([token], skip_special_tokens=True) == tokenizer.decode([token])


def test_truncation_and_padding_settings_do_not_cut_prompts(folder: Path) -> None:
    truncation = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    edit(folder / "tokenizer.json", {"truncation": truncation})
    assert len(load_tokenizer(folder).encode("a long text")) == 11


def test_a_folder_with_only_a_slow_tokenizer_says_how_to_convert_it(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "tokenizer.model")
    with pytest.raises(ModelError, match=r"no tokenizer.json \(only tokenizer.model\).*save_pretrained"):
        load_tokenizer(folder)


@pytest.mark.parametrize("content", ["", "{}", '{"model": {"type": "Other"}}'])
def test_a_damaged_tokenizer_is_refused(folder: Path, content: str) -> None:
    (folder / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError, match=r"tokenizer.json cannot be used"):
        load_tokenizer(folder)
