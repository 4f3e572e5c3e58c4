from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from paradraft.core.errors import AlignmentError, ConfigError, ModelError
from paradraft.nets.folder import saving as module
from paradraft.nets.folder.files import is_drafter_folder, load_drafter_folder
from paradraft.nets.folder.saving import save_drafter_folder
from support.drafter_folders import DEPTH, METHODS, VOCAB, WIDTH, card, drafter, facts


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))


def edit(folder: Path, **changes: object) -> None:
    """Change values of a folder's configuration; None removes them."""
    path = folder / "config.json"
    content = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def rewrite(folder: Path, changes: dict[str, torch.Tensor | None]) -> None:
    """Change tensors of a folder; None removes them. The card would notice, so it goes."""
    path = folder / "model.safetensors"
    state = {**load_file(path), **changes}
    save_file({name: tensor for name, tensor in state.items() if tensor is not None}, path)
    (folder / "card.json").unlink(missing_ok=True)


@pytest.mark.parametrize("method", METHODS)
def test_a_drafter_comes_back_as_it_was(method: str, tmp_path: Path) -> None:
    net = drafter(method)
    loaded = load_drafter_folder(save_drafter_folder(tmp_path / "out", net, card()))
    assert loaded.config == net.config
    assert loaded.layout == "native"
    assert loaded.state.keys() == net.tensors.keys()
    assert all(torch.equal(loaded.state[name], tensor) for name, tensor in net.tensors.items())


def test_variants_come_back_too(tmp_path: Path) -> None:
    variants = (
        drafter("dspark", has_mask_embedding=True, markov_kind="gated", confidence_reads_markov=False),
        drafter("peagle", has_own_embedding=True, markov_rank=4, draft_vocab_size=VOCAB),
        drafter("medusa", num_res_blocks=2),
    )
    for number, net in enumerate(variants):
        loaded = load_drafter_folder(save_drafter_folder(tmp_path / str(number), net, None))
        assert loaded.config == net.config
        assert loaded.card is None
        assert loaded.state.keys() == net.tensors.keys()


def test_the_card_says_whose_weights_these_are(tmp_path: Path) -> None:
    net = drafter("dspark")
    loaded = load_drafter_folder(save_drafter_folder(tmp_path / "out", net, card()))
    assert loaded.card == replace(
        card(),
        method="dspark",
        tap_layers=net.config.tap_layers,
        block_size=4,
        draft_vocab_size=net.config.draft_vocab_size,
        weights_sha256=loaded.sha256,
    )


def test_weights_are_written_in_the_type_asked_for(tmp_path: Path) -> None:
    net = drafter("dspark")
    loaded = load_drafter_folder(save_drafter_folder(tmp_path / "out", net, None, dtype="bf16"))
    assert {tensor.dtype for tensor in loaded.state.values()} == {torch.bfloat16, torch.int64, torch.bool}
    with pytest.raises(ConfigError, match="'int3'"):
        save_drafter_folder(tmp_path / "other", net, None, dtype="int3")


def test_weights_uploaded_anew_under_an_old_card_are_refused(tmp_path: Path) -> None:
    """Users saw half the acceptance of "the same" drafter: its weights had been replaced."""
    out = save_drafter_folder(tmp_path / "out", drafter("dflash", seed=1), card())
    other = save_drafter_folder(tmp_path / "other", drafter("dflash", seed=2), None)
    (out / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    with pytest.raises(ModelError, match="not the file that the card describes"):
        load_drafter_folder(out)


@pytest.mark.parametrize("name", ["d2t", "lm_head.weight"])
def test_a_reduced_vocabulary_without_its_map_is_refused_by_the_name_of_the_tensor(name: str, tmp_path: Path) -> None:
    out = save_drafter_folder(tmp_path / "out", drafter("dspark"), None)
    rewrite(out, {name: None})
    with pytest.raises(ModelError, match=rf"{name} is missing"):
        load_drafter_folder(out)


def test_a_vocabulary_map_shifted_by_one_is_noticed_at_the_start(tmp_path: Path) -> None:
    net = drafter("dspark")
    out = save_drafter_folder(tmp_path / "out", net, None)
    rewrite(out, {"d2t": net.tensors["d2t"] - 1})
    with pytest.raises(ModelError, match="d2t"):
        load_drafter_folder(out)


def test_a_map_that_holds_ids_instead_of_offsets_is_refused(tmp_path: Path) -> None:
    net = drafter("dspark")
    out = save_drafter_folder(tmp_path / "out", net, None)
    ids = net.tensors["d2t"] + torch.arange(len(net.tensors["d2t"]))
    rewrite(out, {"d2t": ids})
    with pytest.raises(ModelError, match="offsets, not ids"):
        load_drafter_folder(out)


def test_values_that_are_not_finite_are_refused_by_name_in_both_directions(tmp_path: Path) -> None:
    net = drafter("dflash")
    out = save_drafter_folder(tmp_path / "out", net, None)
    broken = net.tensors["fc.weight"].clone()
    broken[3, 4] = torch.nan
    rewrite(out, {"fc.weight": broken})
    with pytest.raises(ModelError, match=r"fc\.weight holds nan"):
        load_drafter_folder(out)
    net.tensors["fc.weight"] = broken
    with pytest.raises(ModelError, match=r"fc\.weight has values that are not finite"):
        save_drafter_folder(tmp_path / "other", net, None)
    assert not (tmp_path / "other").exists()


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    out = save_drafter_folder(tmp_path / "out", drafter("dflash"), None)
    path = out / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelError, match="not a whole safetensors file"):
        load_drafter_folder(out)


def test_tensors_of_other_shapes_are_refused_with_both(tmp_path: Path) -> None:
    out = save_drafter_folder(tmp_path / "out", drafter("dflash"), None)
    edit(out, tap_layers=[1, 4])
    with pytest.raises(ModelError, match=r"fc\.weight has shape \[32, 96\].*\[32, 64\]"):
        load_drafter_folder(out)


def test_tensors_that_nothing_would_read_are_refused(tmp_path: Path) -> None:
    out = save_drafter_folder(tmp_path / "out", drafter("dflash"), None)
    rewrite(out, {"layers.0.attention_conv.base_kernel": torch.ones(2, 2, WIDTH)})
    with pytest.raises(ModelError, match="attention_conv"):
        load_drafter_folder(out)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_layers": 2**40}, "num_layers"),
        ({"num_layers": -1}, "num_layers"),
        ({"head_dim": "8"}, "head_dim"),
        ({"method": "gossip"}, "method"),
        ({"tap_layers": [1, 4, DEPTH]}, "tap_layers"),
        ({"tap_layers": "all"}, "tap_layers"),
        ({"norm_eps": 0}, "norm_eps"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"colour": "red"}, "colour is not known"),
        ({"version": 2}, "later version"),
    ],
)
def test_a_configuration_that_cannot_be_right_is_refused(
    changes: dict[str, object], words: str, tmp_path: Path
) -> None:
    out = save_drafter_folder(tmp_path / "out", drafter("dflash"), None)
    edit(out, **changes)
    with pytest.raises(ModelError, match=words):
        load_drafter_folder(out)


def test_folders_of_drafters_are_told_from_others(tmp_path: Path) -> None:
    out = save_drafter_folder(tmp_path / "out", drafter("dflash"), None)
    assert is_drafter_folder(out)
    assert not is_drafter_folder(tmp_path)
    assert not is_drafter_folder("suffix")
    edit(out, format=None, architectures=["LlamaForCausalLM"], model_type="llama")
    assert not is_drafter_folder(out)
    with pytest.raises(ModelError, match="describes no drafter"):
        load_drafter_folder(out)
    (out / "config.json").write_text("{")
    assert not is_drafter_folder(out)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "save_file", full)
    with pytest.raises(ModelError, match="the disk is full"):
        save_drafter_folder(tmp_path / "out", drafter("dflash"), None)
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    out = save_drafter_folder(tmp_path / "out", drafter("dflash"), None)
    with pytest.raises(ModelError, match="not an empty folder"):
        save_drafter_folder(out, drafter("dflash"), None)


def test_the_target_is_compared_where_the_drafter_meets_it(tmp_path: Path) -> None:
    loaded = load_drafter_folder(save_drafter_folder(tmp_path / "out", drafter("dspark"), card()))
    assert loaded.for_target(facts())[1] == ()
    with pytest.raises(AlignmentError, match="layers"):
        loaded.for_target(facts(num_layers=DEPTH + 1))
    bare = load_drafter_folder(save_drafter_folder(tmp_path / "bare", drafter("dspark"), None))
    [note] = bare.for_target(facts())[1]
    assert "no card" in note
    with pytest.raises(AlignmentError, match="hidden states of 32"):
        bare.for_target(facts(hidden_size=64))
