"""One model in every form it can come in: the same weights give the same text."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from gguf.constants import GGMLQuantizationType
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from paradraft.core.errors import ModelError
from paradraft.hub.assets import is_cached
from paradraft.models.build import Running
from paradraft.models.gguf.file import read_gguf
from paradraft.models.load import LoadedModel, load_model
from paradraft.models.tensors import TensorMap
from paradraft.models.tiny import byte_level_tokenizer, write_tiny_model
from support.foreign_models import foreign_model
from support.gguf_files import TINY, TINY_CONFIG, gguf_tensors, write_gguf
from support.greedy import greedy
from support.native import needs_native

PROMPT = [5, 77, 130, 9, 200, 41, 8, 250, 99]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if "real_model" not in request.keywords:
        monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "twin", "llama", 7, TINY_CONFIG)


def load(source: Path, dtype: str = "fp32", runner: str = "auto") -> LoadedModel:
    running = Running(dtype=dtype, device="cpu", runner=runner)
    return load_model(str(source), running=running, num_pages=8, page_size=16)


def reference(folder: Path) -> list[int]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = model.generate(torch.tensor([PROMPT]), max_new_tokens=30, do_sample=False, eos_token_id=None, pad_token_id=0)
    return [int(token) for token in ids[0, len(PROMPT) :]]


def as_pickled(folder: Path) -> Path:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def as_shards(folder: Path) -> Path:
    tensors = load_file(folder / "model.safetensors")
    owner = {name: f"model-0000{index % 2 + 1}-of-00002.safetensors" for index, name in enumerate(tensors)}
    for file in set(owner.values()):
        save_file({name: tensors[name] for name in tensors if owner[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": owner}))
    (folder / "model.safetensors").unlink()
    return folder


def as_gguf(folder: Path, kind: GGMLQuantizationType = GGMLQuantizationType.F32) -> Path:
    vocabulary = byte_level_tokenizer().get_vocab()
    metadata: dict[str, object] = {
        **TINY,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": sorted(vocabulary, key=lambda token: vocabulary[token]),
        "tokenizer.ggml.token_type": [3] * 3 + [1] * 256,
        "tokenizer.ggml.eos_token_id": 2,
    }
    tensors = gguf_tensors(load_file(folder / "model.safetensors"), heads=(4, 2))
    return write_gguf(folder / "model.gguf", metadata, tensors, kind=kind)


FORMS: dict[str, Callable[[Path], Path]] = {
    "safetensors": lambda folder: folder,
    "shards": as_shards,
    "bin": as_pickled,
    "gguf, rows interleaved": as_gguf,
}


@pytest.mark.parametrize("runner", [pytest.param("native", marks=needs_native), "torch"])
@pytest.mark.parametrize("form", sorted(FORMS))
def test_every_form_of_a_model_gives_the_greedy_text_of_transformers(form: str, runner: str, folder: Path) -> None:
    expected = reference(folder)
    assert len(set(expected)) > 5
    model = load(FORMS[form](folder), runner=runner)
    assert greedy(model.target, PROMPT, 30) == expected
    assert model.tokenizer.encode("Hi!") == [token + 3 for token in _byte_ids(b"Hi!")]
    assert model.tokenizer.eos_ids == (2,)
    assert runner in model.target.limits.runner


def _byte_ids(text: bytes) -> list[int]:
    vocabulary = byte_level_tokenizer().get_vocab()
    return [vocabulary[chr(byte)] - 3 for byte in text]


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q5_1", "Q4_0"])
def test_a_quantised_file_gives_the_text_of_its_own_rounded_weights(kind: str, folder: Path) -> None:
    quantised = as_gguf(folder, GGMLQuantizationType[kind])
    model = load(quantised)
    rounded = folder.parent / "rounded"
    write_tiny_model(rounded, "llama", 7, TINY_CONFIG)
    weights = TensorMap(read_gguf(quantised)[1])
    save_file({name: weights[name].float() for name in weights}, rounded / "model.safetensors", {"format": "pt"})
    assert greedy(model.target, PROMPT, 30) == reference(rounded)


def test_an_architecture_the_decoder_does_not_know_runs_through_transformers(tmp_path: Path) -> None:
    folder = tmp_path / "foreign"
    foreign = foreign_model("mixtral")
    foreign.save_pretrained(folder)
    size = foreign.config.vocab_size
    _write_tokenizer(folder, size)
    model = load(folder)
    assert model.target.limits.runner.startswith("transformers")
    assert model.target.limits.name == "foreign"
    prompt = [3, 14, 15, 9, 26]
    ids = foreign.generate(torch.tensor([prompt]), max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=0)
    assert greedy(model.target, prompt, 8) == [int(token) for token in ids[0, len(prompt) :]]


def _write_tokenizer(folder: Path, vocab_size: int) -> None:
    content = json.loads(byte_level_tokenizer().to_str())
    content["model"]["vocab"] = {token: at for token, at in content["model"]["vocab"].items() if at < vocab_size}
    (folder / "tokenizer.json").write_text(json.dumps(content))


def test_the_identity_tells_which_weights_run(folder: Path) -> None:
    identity = load(folder).identity
    assert (identity.name, identity.path, identity.revision) == ("twin", folder, None)
    assert len(bytes.fromhex(identity.sha256)) == 32


def test_a_tokenizer_larger_than_the_model_is_refused(folder: Path) -> None:
    write_tiny_model(folder, "llama", 7, {**TINY_CONFIG, "vocab_size": 100})
    with pytest.raises(ModelError, match=r"the tokenizer has ids up to 258, and the model knows 100 tokens"):
        load(folder)


def damage_missing(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["model.layers.1.mlp.up_proj.weight"]


def damage_shape(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.layers.1.mlp.up_proj.weight"] = torch.ones(3, 3)


def damage_value(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.layers.1.mlp.up_proj.weight"][2, 2] = float("nan")


@pytest.mark.parametrize("damage", [damage_missing, damage_shape, damage_value])
def test_damaged_weights_are_named_and_nothing_stays_in_memory(
    damage: Callable[[dict[str, torch.Tensor]], None], folder: Path
) -> None:
    tensors = load_file(folder / "model.safetensors")
    damage(tensors)
    save_file(tensors, folder / "model.safetensors")
    del tensors
    before = _tensor_bytes()
    with pytest.raises(ModelError, match=r"model.layers.1.mlp.up_proj.weight"):
        load(folder)
    assert _tensor_bytes() <= before


def _tensor_bytes() -> int:
    gc.collect()
    return sum(found.nbytes for found in gc.get_objects() if isinstance(found, torch.Tensor))


@pytest.mark.real_model
def test_smollm2_answers_a_question() -> None:
    if not is_cached("smollm2-135m"):
        pytest.skip("smollm2-135m is not in the cache; make setup brings it")
    model = load_model("smollm2-135m", running=Running(dtype="fp32", device="cpu"), num_pages=8, page_size=16)
    text = model.tokenizer.render_chat([{"role": "user", "content": "What is the capital of France?"}])
    ids = greedy(model.target, model.tokenizer.encode(text, add_special=False), 8)
    assert model.tokenizer.decode(ids).startswith("The capital of France is Paris.")
    assert ids[-1] in model.tokenizer.eos_ids
