"""Token ids are llama.cpp's, for every pre-tokenizer we name and for sentencepiece vocabularies."""

from __future__ import annotations

from pathlib import Path

import pytest

from paradraft.core.errors import ModelError
from paradraft.hub.assets import asset_path, is_cached
from paradraft.models.fast_tokenizer import FastTokenizer
from paradraft.models.gguf.pretokenizers import CUTS
from paradraft.models.tokenizer import load_tokenizer
from support.vocabularies import read_fixture, write_byte_level, write_sentencepiece

CHATS = [{"role": "user", "content": "Hi <b>"}, {"role": "assistant", "content": "Yo"}]


def assert_same_ids(tokenizer: FastTokenizer, cases: list[tuple[str, list[int]]]) -> None:
    assert len(cases) > 60
    wrong = [(text, tokenizer.encode(text), ids) for text, ids in cases if tokenizer.encode(text) != ids]
    assert wrong == []


def test_every_pre_tokenizer_we_name_was_checked() -> None:
    assert set(read_fixture("llama_cpp_pretokenizer_ids.json")["names"]) == set(CUTS)


@pytest.mark.parametrize("name", sorted(CUTS))
def test_byte_level_ids_are_those_of_llama_cpp(name: str, tmp_path: Path) -> None:
    fixture = read_fixture("llama_cpp_pretokenizer_ids.json")
    column = fixture["names"][name]
    cases = [(case["text"], case["ids"][column]) for case in fixture["cases"]]
    assert_same_ids(load_tokenizer(write_byte_level(tmp_path / "a.gguf", name)), cases)


@pytest.mark.parametrize(("adds_space", "column"), [(True, "with_space"), (False, "without_space")])
def test_sentencepiece_ids_are_those_of_llama_cpp(adds_space: bool, column: str, tmp_path: Path) -> None:
    path = write_sentencepiece(tmp_path / "a.gguf", {"tokenizer.ggml.add_space_prefix": adds_space})
    cases = [(case["text"], case[column]) for case in read_fixture("llama_cpp_sentencepiece_ids.json")["cases"]]
    assert_same_ids(load_tokenizer(path), cases)


def test_sentencepiece_merges_go_by_score_whatever_the_order_of_the_ids(tmp_path: Path) -> None:
    tokens = ["<unk>", "<s>", "</s>", "a", "b", "c", "ab", "bc"]
    for scores, expected in (([-1.0, -2.0], ["ab", "c"]), ([-2.0, -1.0], ["a", "bc"])):
        changes: dict[str, object] = {
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [2, 3, 3, 1, 1, 1, 1, 1],
            "tokenizer.ggml.scores": [0.0] * 3 + [-9.0] * 3 + scores,
            "tokenizer.ggml.add_space_prefix": False,
        }
        tokenizer = load_tokenizer(write_sentencepiece(tmp_path / "a.gguf", changes))
        assert [tokenizer.spelling(token) for token in tokenizer.encode("abc", add_special=False)] == expected


@pytest.mark.real_model
def test_smollm2_ids_are_those_of_llama_cpp_and_every_text_comes_back_whole() -> None:
    if not is_cached("smollm2-135m"):
        pytest.skip("smollm2-135m is not in the cache; make setup brings it")
    tokenizer = load_tokenizer(asset_path("smollm2-135m"))
    cases = read_fixture("llama_cpp_smollm2_ids.json")["cases"]
    assert_same_ids(tokenizer, [(case["text"], case["ids"]) for case in cases])
    for case in cases:
        assert tokenizer.decode(case["ids"], skip_special=False) == case["text"]
        assert b"".join(map(tokenizer.token_bytes, case["ids"])) == case["text"].encode()


@pytest.mark.parametrize("pre", [None, "tekken", "llama-bpe-2"])
def test_an_unknown_or_missing_pre_tokenizer_is_refused_with_the_list(pre: str | None, tmp_path: Path) -> None:
    path = write_byte_level(tmp_path / "a.gguf", "qwen2", {"tokenizer.ggml.pre": pre})
    with pytest.raises(ModelError, match=r"tokenizer.ggml.pre names .*pre-tokenizer.* smollm, .*qwen2"):
        load_tokenizer(path)


@pytest.mark.parametrize("adds_bos", [True, False])
@pytest.mark.parametrize("adds_eos", [True, False])
@pytest.mark.parametrize("pre", ["llama-bpe", "qwen2"])
def test_the_files_word_on_first_and_last_tokens_counts(
    adds_bos: bool, adds_eos: bool, pre: str, tmp_path: Path
) -> None:
    changes: dict[str, object] = {"tokenizer.ggml.add_bos_token": adds_bos, "tokenizer.ggml.add_eos_token": adds_eos}
    tokenizer = load_tokenizer(write_byte_level(tmp_path / "a.gguf", pre, changes))
    plain = tokenizer.encode("a b", add_special=False)
    assert tokenizer.encode("a b") == [1] * adds_bos + plain + [2] * adds_eos


def test_the_ids_that_end_an_answer_are_all_those_the_file_names(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_byte_level(tmp_path / "a.gguf", "qwen2", {"tokenizer.ggml.eot_token_id": 0}))
    assert (tokenizer.eos_ids, tokenizer.bos_id) == ((2, 0), 1)


def test_the_chat_template_of_the_file_writes_the_conversation(tmp_path: Path) -> None:
    template = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}"
    tokenizer = load_tokenizer(write_byte_level(tmp_path / "a.gguf", "qwen2", {"tokenizer.chat_template": template}))
    assert tokenizer.render_chat(CHATS) == "<|im_start|>[user]Hi <b><|im_end|>[assistant]Yo<|im_end|>"


def test_unused_tokens_have_no_spelling_and_never_come_out_of_text(tmp_path: Path) -> None:
    fixture = read_fixture("llama_cpp_pretokenizer_ids.json")
    types = [3] * 3 + [1] * (len(fixture["tokens"]) - 4) + [5]
    path = write_byte_level(tmp_path / "a.gguf", "qwen2", {"tokenizer.ggml.token_type": types})
    tokenizer = load_tokenizer(path)
    last = len(types) - 1
    assert (tokenizer.vocab_size, tokenizer.spelling(last), tokenizer.token_bytes(last)) == (len(types), None, b"")
    assert last not in tokenizer.encode("<tool_call>")


def test_control_tokens_are_special_and_user_defined_ones_are_text(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_byte_level(tmp_path / "a.gguf", "qwen2"))
    text = "<|im_start|>a<tool_call>"
    assert tokenizer.decode(tokenizer.encode(text)) == "a<tool_call>"
    assert tokenizer.decode(tokenizer.encode(text), skip_special=False) == text
    assert [tokenizer.is_special(token) for token in tokenizer.encode(text)] == [True, False, False]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tokenizer.ggml.model": "bert"}, "tokenizer.ggml.model='bert' is not supported"),
        ({"tokenizer.ggml.tokens": None}, "tokenizer.ggml.tokens is missing"),
        ({"tokenizer.ggml.tokens": ["a", "a"]}, "tokenizer.ggml.tokens has doubles"),
        ({"tokenizer.ggml.token_type": [1]}, "tokenizer.ggml.token_type is not one value for each"),
        ({"tokenizer.ggml.eos_token_id": 10**6}, "tokenizer.ggml.eos_token_id is 1000000, not the id"),
        ({"tokenizer.ggml.merges": ["a nosuchtoken"]}, "joins 'a' and 'nosuchtoken', which are no tokens"),
        ({"tokenizer.ggml.merges": ["a"]}, "which are no tokens"),
    ],
)
def test_a_vocabulary_that_contradicts_itself_is_refused(
    changes: dict[str, object], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=reason):
        load_tokenizer(write_byte_level(tmp_path / "a.gguf", "qwen2", changes))
