from __future__ import annotations

import errno
import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from paradraft.core.errors import ModelError
from paradraft.models import export
from paradraft.models.build import Running
from paradraft.models.checkpoint import find_model, open_checkpoint
from paradraft.models.export import Exported, export_model
from paradraft.models.gguf.file import map_file
from paradraft.models.load import load_model
from paradraft.models.tiny import write_tiny_model
from paradraft.models.tokenizer import load_tokenizer
from support.gguf_files import TINY, TINY_CONFIG, gguf_tensors, tiny_weights, write_gguf
from support.greedy import greedy
from support.vocabularies import write_byte_level

CHAT = [{"role": "user", "content": "Hi caf\u00e9"}]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))


def export_from(source: Path, target: Path, dtype: str = "bf16") -> Exported:
    return export_model(open_checkpoint(find_model(str(source))), load_tokenizer(source), target, dtype=dtype)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_transformers_gives_the_same_greedy_ids_from_the_exported_folder(family: str, tmp_path: Path) -> None:
    source = write_tiny_model(tmp_path / "source", family, 3)
    exported = export_from(source, tmp_path / "out").folder
    tokenizer = AutoTokenizer.from_pretrained(exported)
    prompt = tokenizer.apply_chat_template(CHAT, tokenize=True, add_generation_prompt=True)["input_ids"]
    model = AutoModelForCausalLM.from_pretrained(exported, dtype=torch.float32)
    theirs = model.generate(
        torch.tensor([prompt]), max_new_tokens=24, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    ours = load_model(str(exported), running=Running(dtype="fp32", device="cpu"), num_pages=8, page_size=16)
    assert ours.tokenizer.encode(ours.tokenizer.render_chat(CHAT), add_special=False) == prompt
    assert greedy(ours.target, prompt, 24) == theirs[0, len(prompt) :].tolist()


def test_weights_are_bf16_and_a_tied_head_is_not_doubled(tmp_path: Path) -> None:
    source = write_tiny_model(tmp_path / "source", "llama", 3)
    tensors = load_file(source / "model.safetensors")
    doubled = {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"].clone()}
    save_file(doubled, source / "model.safetensors")
    exported = export_from(source, tmp_path / "out").folder
    with safe_open(exported / "model.safetensors", framework="pt") as file:
        assert "lm_head.weight" not in file.keys()  # noqa: SIM118 - the handle is no mapping
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"BF16"}  # noqa: SIM118
        assert file.metadata() == {"format": "pt"}
    assert json.loads((exported / "config.json").read_text())["torch_dtype"] == "bfloat16"


def test_a_gguf_file_becomes_a_folder_with_its_tokenizer_and_template(tmp_path: Path) -> None:
    vocabulary = write_byte_level(tmp_path / "vocabulary.gguf", "llama-bpe")
    metadata = map_file(vocabulary)[1].metadata | {
        "tokenizer.chat_template": "{{ messages[0].content }}{{ eos_token }}"
    }
    weights = tiny_weights()
    rows = len(metadata["tokenizer.ggml.tokens"])  # type: ignore[arg-type]
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        weights[name] = torch.randn(rows, 64, generator=torch.Generator().manual_seed(1))
    source = write_gguf(tmp_path / "a.gguf", {**TINY, **metadata}, gguf_tensors(weights, heads=(4, 2)))
    exported = export_from(source, tmp_path / "out", "fp32").folder
    ours, theirs = load_tokenizer(source), AutoTokenizer.from_pretrained(exported)
    assert theirs("Hello 1234 <|im_end|>")["input_ids"] == ours.encode("Hello 1234 <|im_end|>")
    assert theirs.apply_chat_template(CHAT, tokenize=False) == ours.render_chat(CHAT)
    model = AutoModelForCausalLM.from_pretrained(exported, dtype=torch.float32)
    name = "model.layers.1.self_attn.k_proj.weight"
    assert torch.equal(model.state_dict()[name], weights[name])
    assert model.generation_config.eos_token_id == [2]


def test_the_hashes_are_those_of_the_files_and_name_the_source(tmp_path: Path) -> None:
    source = write_tiny_model(tmp_path / "source", "llama", 3)
    exported = export_from(source, tmp_path / "out")
    noted = json.loads((exported.folder / "hashes.json").read_text())
    assert noted["sha256"] == exported.hashes
    assert set(noted["sha256"]) == {path.name for path in exported.folder.iterdir()} - {"hashes.json"}
    for name, digest in exported.hashes.items():
        assert hashlib.sha256((exported.folder / name).read_bytes()).hexdigest() == digest
    assert noted["source"]["sha256"] == open_checkpoint(find_model(str(source))).sha256()


def test_a_folder_with_files_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").touch()
    with pytest.raises(ModelError, match="exists and is not an empty folder"):
        export_from(write_tiny_model(tmp_path / "source", "llama", 3), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["precious"]


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    source = write_tiny_model(tmp_path / "source", "llama", 3)
    monkeypatch.setattr(export, "save_file", full)
    with pytest.raises(ModelError, match=r"out cannot be written: the disk is full"):
        export_from(source, tmp_path / "made" / "out")
    assert list((tmp_path / "made").iterdir()) == []


def test_an_unknown_dtype_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="dtype='int4' is not known"):
        export_from(write_tiny_model(tmp_path / "source", "llama", 3, TINY_CONFIG), tmp_path / "out", "int4")
