"""What identifies a target is read from it, the same by every way to it."""

from __future__ import annotations

import json
from pathlib import Path

from paradraft.models.build import Running
from paradraft.models.checkpoint import find_model, open_checkpoint
from paradraft.models.load import load_model
from paradraft.models.tiny import write_tiny_model
from paradraft.models.tokenizer import load_tokenizer
from paradraft.nets.folder.facts import (
    facts_of,
    facts_of_files,
    open_target,
    template_digest,
    tokenizer_digest,
)
from support.byte_tokenizer import ByteTokenizer


def test_a_loaded_target_and_its_files_have_the_same_facts(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "tiny", "llama", 1)
    model = load_model(str(folder), running=Running(dtype="fp32"), num_pages=2, page_size=8)
    facts = facts_of(model)
    assert facts == facts_of_files(open_checkpoint(find_model(str(folder))))
    assert (facts.name, facts.hidden_size, facts.num_layers, facts.vocab_size) == ("tiny", 48, 3, 259)
    assert facts.template_sha256 is not None
    model.target.close()


def test_another_chat_template_changes_its_hash_alone(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "tiny", "llama", 1)
    before = facts_of_files(open_checkpoint(find_model(str(folder))))
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "chat_template": settings["chat_template"] + " "}))
    after = facts_of_files(open_checkpoint(find_model(str(folder))))
    assert after.template_sha256 != before.template_sha256
    assert (after.tokenizer_sha256, after.sha256) == (before.tokenizer_sha256, before.sha256)


def test_ids_with_other_meanings_have_another_hash() -> None:
    plain = tokenizer_digest(ByteTokenizer())
    assert plain == tokenizer_digest(ByteTokenizer(vocab_size=300))  # ids that mean nothing do not count
    assert plain != tokenizer_digest(ByteTokenizer(eos_ids=(256,)))
    swapped = ByteTokenizer()
    swapped.token_bytes = lambda token: bytes([token ^ 1]) if token < 256 else b"x"  # type: ignore[method-assign]
    assert plain != tokenizer_digest(swapped)


def test_the_same_tokenizer_is_read_once() -> None:
    tokenizer, asked = ByteTokenizer(), []
    meaning = tokenizer.token_bytes
    tokenizer.token_bytes = lambda token: asked.append(token) or meaning(token)  # type: ignore[method-assign,func-returns-value]
    assert tokenizer_digest(tokenizer) == tokenizer_digest(tokenizer) == tokenizer_digest(ByteTokenizer())
    assert len(asked) == len(set(asked)) > 200


def test_a_tokenizer_without_a_template_has_no_hash_of_one(tmp_path: Path) -> None:
    assert template_digest(ByteTokenizer()) is None
    folder = write_tiny_model(tmp_path / "tiny", "llama", 1)
    assert template_digest(load_tokenizer(folder)) is not None


def test_a_target_opened_by_name_brings_its_facts(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "tiny", "llama", 1)
    checkpoint, facts = open_target(str(folder))
    assert facts == facts_of_files(checkpoint)
