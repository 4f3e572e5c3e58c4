"""The port over byte-level and sentencepiece vocabularies: bytes, text and ids agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models

from paradraft.core.errors import ModelError, RequestRefused
from paradraft.models.fast_tokenizer import FastTokenizer
from paradraft.models.token_bytes import Spelling, byte_level_bytes, spelling_of
from paradraft.models.tokenizer import load_tokenizer
from support.vocabularies import read_fixture, write_byte_level, write_sentencepiece

TEXTS = [case["text"] for case in read_fixture("llama_cpp_pretokenizer_ids.json")["cases"]]


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> FastTokenizer:
    return load_tokenizer(write_byte_level(tmp_path_factory.mktemp("bpe") / "a.gguf", "qwen2"))


@pytest.fixture(scope="module")
def sentencepiece(tmp_path_factory: pytest.TempPathFactory) -> FastTokenizer:
    return load_tokenizer(write_sentencepiece(tmp_path_factory.mktemp("spm") / "a.gguf"))


@pytest.mark.parametrize("text", TEXTS)
def test_the_bytes_of_the_tokens_are_the_bytes_of_the_text(text: str, byte_level: FastTokenizer) -> None:
    ids = byte_level.encode(text)
    assert b"".join(map(byte_level.token_bytes, ids)) == text.encode()
    assert byte_level.decode(np.array(ids, dtype=np.int32), skip_special=False) == text


@pytest.mark.parametrize("text", [text for text in TEXTS if "<" not in text])
def test_sentencepiece_tokens_have_the_bytes_of_the_text_behind_one_space(
    text: str, sentencepiece: FastTokenizer
) -> None:
    ids = sentencepiece.encode(text, add_special=False)
    assert b"".join(map(sentencepiece.token_bytes, ids)) == (b" " + text.encode() if text else b"")
    assert sentencepiece.decode(ids) == text


def test_byte_tokens_of_a_sentencepiece_vocabulary_are_single_bytes(sentencepiece: FastTokenizer) -> None:
    ids = [sentencepiece.backend.token_to_id(f"<0x{byte:02X}>") for byte in "\U0001f98a".encode()]
    assert [sentencepiece.token_bytes(token) for token in ids] == [b"\xf0", b"\x9f", b"\xa6", b"\x8a"]
    assert sentencepiece.decode(ids) == "\U0001f98a"


def test_every_byte_has_one_byte_level_character() -> None:
    spelled = {token: byte_level_bytes(token) for token in read_fixture("llama_cpp_pretokenizer_ids.json")["tokens"]}
    singles = [value for token, value in spelled.items() if len(token) == 1]
    assert sorted(singles) == [bytes([byte]) for byte in range(256)]


def test_special_tokens_have_the_bytes_of_their_spelling(byte_level: FastTokenizer) -> None:
    assert byte_level.token_bytes(1) == b"<|im_start|>"
    assert byte_level.spelling(1) == "<|im_start|>"


def test_added_tokens_that_are_text_have_the_bytes_they_decode_to(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_sentencepiece(tmp_path / "a.gguf"))
    for text, is_special in (("\u2581\u2581two", False), ("\u2581special", True)):
        tokenizer.backend.add_tokens([AddedToken(text, special=is_special, normalized=False)])
    grown = FastTokenizer(
        tokenizer.backend, eos_ids=(), bos_id=None, named={}, chat_template=None, vocab_size=tokenizer.vocab_size + 2
    )
    assert grown.token_bytes(tokenizer.vocab_size) == b"  two"
    assert grown.token_bytes(tokenizer.vocab_size + 1) == "\u2581special".encode()


@pytest.mark.parametrize("token", [-1, 10**6])
def test_an_id_outside_the_vocabulary_stands_for_nothing(token: int, byte_level: FastTokenizer) -> None:
    assert (byte_level.spelling(token), byte_level.token_bytes(token)) == (None, b"")
    assert not byte_level.is_special(token)


def test_half_a_character_cut_off_becomes_one_replacement_character(byte_level: FastTokenizer) -> None:
    ids = [byte_level.backend.token_to_id(character) for character in ("a", "\u00f0", "\u0141")]
    assert byte_level.decode(ids) == "a\ufffd"


def test_a_lone_surrogate_is_refused_as_a_request(byte_level: FastTokenizer) -> None:
    with pytest.raises(RequestRefused, match="a lone surrogate"):
        byte_level.encode("a\ud83d")


def test_a_model_without_template_says_so(byte_level: FastTokenizer) -> None:
    with pytest.raises(ModelError, match="no chat template"):
        byte_level.render_chat([{"role": "user", "content": "Hi"}])


def test_a_vocabulary_whose_bytes_are_not_known_is_refused() -> None:
    backend = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    backend.decoder = decoders.WordPiece()
    with pytest.raises(ModelError, match="decoder is WordPiece"):
        spelling_of(backend)


def test_characters_that_spell_no_byte_leave_a_text_as_it_is() -> None:
    spelled = "".join(chr(0x100 + at) for at in range(68)) + "\u00a1\u00ff!~"
    assert len(byte_level_bytes(spelled)) == len(spelled)
    for odd in (" ", "\x7f", "\u00ad", "\u0144", "\uffff", "\U0001f600"):
        assert byte_level_bytes(f"a{odd}") == f"a{odd}".encode()


def test_the_spelling_is_told_by_the_decoder_that_a_tokenizer_file_would_have() -> None:
    backend = Tokenizer(models.BPE())
    backend.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.Fuse()])
    assert spelling_of(backend) is Spelling.SENTENCEPIECE
    backend.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Fuse()])
    assert spelling_of(backend) is Spelling.BYTE_LEVEL
    with pytest.raises(ModelError, match="decoder is None"):
        spelling_of(Tokenizer(models.BPE()))
