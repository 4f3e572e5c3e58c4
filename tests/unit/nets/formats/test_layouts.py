from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from paradraft.core.errors import ConfigError, ModelError
from paradraft.nets.folder.files import LoadedNet, is_drafter_folder, load_drafter_folder
from paradraft.nets.folder.saving import save_drafter_folder
from paradraft.nets.formats.table import LAYOUTS, claiming_layout
from support.drafter_folders import DEPTH, DRAFT_VOCAB, VOCAB, WIDTH, Weights, card, drafter, facts, tables

PLACES = (
    ("eagle3", "eagle"),
    ("peagle", "eagle"),
    ("dflash", "zlab"),
    ("dspark", "deepspec"),
    ("eagle3", "speculators"),
    ("peagle", "speculators"),
    ("dflash", "speculators"),
    ("dspark", "speculators"),
    ("medusa", "medusa"),
)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))


def content_of(folder: Path) -> dict[str, object]:
    return json.loads((folder / "config.json").read_text())


def edit(folder: Path, **changes: object) -> None:
    content = {**content_of(folder), **changes}
    (folder / "config.json").write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


def assert_same(loaded: LoadedNet, net: Weights) -> None:
    assert loaded.config == net.config
    assert loaded.state.keys() == net.tensors.keys()
    for name, tensor in net.tensors.items():
        assert loaded.state[name].dtype == tensor.dtype, name
        assert torch.equal(loaded.state[name], tensor), name


@pytest.mark.parametrize(("method", "layout"), PLACES)
def test_a_drafter_comes_back_from_every_layout_bit_by_bit(method: str, layout: str, tmp_path: Path) -> None:
    net = drafter(method)
    out = save_drafter_folder(tmp_path / "out", net, card(), layout=layout)
    loaded = load_drafter_folder(out)
    assert loaded.layout == layout
    assert_same(loaded, net)
    again = save_drafter_folder(tmp_path / "again", loaded, loaded.card, layout=layout)
    for name in ("model.safetensors", "config.json", "card.json"):
        assert (again / name).read_bytes() == (out / name).read_bytes(), name


@pytest.mark.parametrize(("method", "layout"), PLACES)
def test_each_file_is_claimed_by_one_layout_alone(method: str, layout: str, tmp_path: Path) -> None:
    out = save_drafter_folder(tmp_path / "out", drafter(method), None, layout=layout)
    assert is_drafter_folder(out)
    assert [name for name, one in LAYOUTS.items() if one.claims(content_of(out))] == [layout]


def test_no_layout_claims_an_ordinary_model() -> None:
    assert claiming_layout({"architectures": ["LlamaForCausalLM"], "model_type": "llama"}) is None
    assert claiming_layout({"architectures": "DFlashDraftModel"}) is None
    assert claiming_layout({}) is None


@pytest.mark.parametrize(
    ("method", "layout", "path", "ids"),
    [
        ("dflash", "zlab", ("dflash_config", "target_layer_ids"), [1, 4, 8]),
        ("dspark", "deepspec", ("target_layer_ids",), [1, 4, 8]),
        ("dflash", "speculators", ("aux_hidden_state_layer_ids",), [2, 5, 9]),
        ("dspark", "speculators", ("aux_hidden_state_layer_ids",), [2, 5, 9]),
        ("eagle3", "eagle", ("eagle_aux_hidden_state_layer_ids",), [2, 6, 9]),
        ("peagle", "speculators", ("eagle_aux_hidden_state_layer_ids",), [2, 6, 9]),
    ],
)
def test_layer_ids_are_converted_between_output_of_a_layer_and_input_to_it(
    method: str, layout: str, path: tuple[str, ...], ids: list[int], tmp_path: Path
) -> None:
    """An id off by one costs a tenth of the acceptance and says nothing."""
    net = drafter(method)
    found: object = content_of(save_drafter_folder(tmp_path / "out", net, None, layout=layout))
    for key in path:
        assert isinstance(found, Mapping)
        found = found[key]
    assert found == ids


@pytest.mark.parametrize("layout", ["eagle", "speculators", "native"])
def test_a_first_layer_that_goes_on_from_the_normed_feature_stays_one(layout: str, tmp_path: Path) -> None:
    for is_normed in (True, False):
        net = drafter("eagle3", norm_before_residual=is_normed)
        out = save_drafter_folder(tmp_path / f"{is_normed}", net, card(), layout=layout)
        assert load_drafter_folder(out).config.norm_before_residual is is_normed
        assert content_of(out).get("norm_before_residual", False) is is_normed


@pytest.mark.parametrize("layout", ["zlab", "speculators"])
def test_a_block_of_dflash_counts_its_anchor_outside_and_not_inside(layout: str, tmp_path: Path) -> None:
    content = content_of(save_drafter_folder(tmp_path / "out", drafter("dflash"), None, layout=layout))
    assert content["block_size"] == 5
    dspark = content_of(save_drafter_folder(tmp_path / "dspark", drafter("dspark"), None, layout="speculators"))
    assert dspark["block_size"] == 4
    for written in (dspark, content):
        if "speculators_config" in written:
            assert written["speculators_config"]["proposal_methods"][0]["speculative_tokens"] == 4


@pytest.mark.parametrize("num_taps", [1, 3, 5])
@pytest.mark.parametrize("num_layers", [1, 3, 5])
@pytest.mark.parametrize(("method", "layout"), [("dspark", "speculators"), ("dflash", "zlab"), ("peagle", "eagle")])
def test_any_number_of_layers_goes_with_any_number_of_taps(
    method: str, layout: str, num_layers: int, num_taps: int, tmp_path: Path
) -> None:
    net = drafter(method, num_layers=num_layers, tap_layers=(0, 2, 4, 6, 8)[:num_taps])
    loaded = load_drafter_folder(save_drafter_folder(tmp_path / "out", net, None, layout=layout))
    assert_same(loaded, net)
    assert loaded.state["fc.weight"].shape == (WIDTH, num_taps * WIDTH)


def test_layers_have_the_names_of_their_layout(tmp_path: Path) -> None:
    def names(method: str, layout: str) -> set[str]:
        out = save_drafter_folder(tmp_path / f"{method}-{layout}", drafter(method), None, layout=layout)
        return set(load_file(out / "model.safetensors"))

    assert "midlayer.self_attn.q_proj.weight" in names("eagle3", "eagle")
    assert "layers.0.self_attn.q_proj.weight" in names("eagle3", "speculators")
    assert {"layers.0.hidden_norm.weight", "layers.1.input_layernorm.weight", "mask_hidden"} <= names("peagle", "eagle")
    assert {"markov_head.markov_w1.weight", "confidence_head.proj.bias", "d2t"} <= names("dspark", "deepspec")
    medusa = names("medusa", "medusa")
    assert {"blocks.3.layers.0.bias", "lm_head.weight"} <= medusa
    assert "token_map" not in medusa  # vLLM knows it, and yet refuses it


def test_medusa_has_a_row_for_every_token_and_zeros_for_those_not_drafted(tmp_path: Path) -> None:
    net = drafter("medusa")
    out = save_drafter_folder(tmp_path / "out", net, None, layout="medusa")
    head = load_file(out / "model.safetensors")["lm_head.weight"]
    assert head.shape == (VOCAB, WIDTH)
    assert torch.equal(head[net.tensors["t2d"]], net.tensors["lm_head.weight"])
    assert not head[~net.tensors["t2d"]].any()
    content = content_of(out)
    renamed_by_its_reader = [key for key in content if "num" in key and ("layers" in key or "heads" in key)]
    assert renamed_by_its_reader == ["num_heads", "num_hidden_layers"]


@pytest.mark.parametrize("is_whole", [True, False])
def test_medusa_heads_that_name_ids_in_any_order_are_read(is_whole: bool, tmp_path: Path) -> None:
    net = drafter("medusa")
    out = save_drafter_folder(tmp_path / "out", net, None, layout="medusa")
    blocks = {name: tensor for name, tensor in net.tensors.items() if name.startswith("blocks.")}
    ids, whole = net.tensors["t2d"].nonzero().flatten(), torch.randn(VOCAB, WIDTH)
    backwards = ids.flip(0).contiguous()
    head = whole if is_whole else whole[backwards]
    foreign = {**blocks, "token_map": backwards, "lm_heads.0.weight": head}
    save_file({f"medusa_heads.{name}": tensor for name, tensor in foreign.items()}, out / "model.safetensors")
    edit(out, paradraft=None, truncated_vocab_size=DRAFT_VOCAB)
    loaded = load_drafter_folder(out, num_target_layers=DEPTH)
    assert loaded.config.tap_layers == (DEPTH - 1,)
    assert torch.equal(loaded.state["lm_head.weight"], whole[ids])
    assert torch.equal(loaded.state["d2t"], net.tensors["d2t"])


@pytest.mark.parametrize(("method", "layout"), [("dflash", "zlab"), ("dspark", "speculators")])
def test_a_learned_mask_goes_where_other_engines_look_for_it_and_comes_back(
    method: str, layout: str, tmp_path: Path
) -> None:
    net = drafter(method, has_mask_embedding=True)
    with pytest.raises(ModelError, match="learned mask embedding"):
        save_drafter_folder(tmp_path / "none", net, None, layout=layout)
    table = torch.randn(VOCAB, WIDTH).to(torch.bfloat16)
    with pytest.raises(ModelError, match=r"shape \[95, 32\]"):
        save_drafter_folder(tmp_path / "none", net, None, layout=layout, tables=tables(table[1:], table))
    out = save_drafter_folder(tmp_path / "out", net, None, layout=layout, tables=tables(table, table))
    written = load_file(out / "model.safetensors")["embed_tokens.weight"]
    assert torch.equal(written[2], net.tensors["mask_embedding"])
    assert torch.equal(written[3], table[3].float())
    assert_same(load_drafter_folder(out), net)


def test_files_without_t2d_or_with_a_flat_mask_are_read(tmp_path: Path) -> None:
    net = drafter("peagle")
    out = save_drafter_folder(tmp_path / "out", net, None, layout="eagle")
    state = load_file(out / "model.safetensors")
    del state["t2d"]
    save_file({**state, "mask_hidden": state["mask_hidden"].flatten()}, out / "model.safetensors")
    assert_same(load_drafter_folder(out), net)


def test_a_folder_that_does_not_say_how_deep_its_target_is_takes_that_from_the_target(tmp_path: Path) -> None:
    net = drafter("eagle3")
    out = save_drafter_folder(tmp_path / "out", net, None, layout="eagle")
    edit(out, paradraft=None)
    loaded = load_drafter_folder(out)
    assert not loaded.says_depth
    assert loaded.config.tap_layers == net.config.tap_layers
    assert loaded.for_target(facts(num_layers=20))[0].config.num_target_layers == 20
    edit(out, eagle_aux_hidden_state_layer_ids=None, eagle_config=None)
    with pytest.raises(ModelError, match="which layers"):
        load_drafter_folder(out)
    assert load_drafter_folder(out, num_target_layers=30).config.tap_layers == (1, 14, 26)


def test_foreign_files_say_rope_in_either_place(tmp_path: Path) -> None:
    out = save_drafter_folder(tmp_path / "out", drafter("dflash"), None, layout="zlab")
    edit(out, rope_parameters=None, paradraft=None)
    assert load_drafter_folder(out).config.rope_theta == 100_000.0
    edit(out, rope_theta=None, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    assert load_drafter_folder(out).config.rope_theta == 500.0


@pytest.mark.parametrize(
    ("method", "layout", "changes", "words"),
    [
        ("dflash", "zlab", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_scaling"),
        ("dflash", "zlab", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rope_type='yarn'"),
        ("dflash", "zlab", {"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
        ("dflash", "zlab", {"attention_bias": True}, "attention_bias"),
        ("dflash", "zlab", {"hidden_act": "gelu"}, "hidden_act"),
        ("dflash", "zlab", {"dflash_config": {"mask_token_id": 2, "target_layer_ids": [1], "trick": 1}}, "trick"),
        ("dflash", "zlab", {"dflash_config": {"mask_token_id": 2, "target_layer_ids": [1], "causal": True}}, "causal"),
        ("dflash", "zlab", {"num_target_layers": None}, "num_target_layers is missing"),
        ("dspark", "deepspec", {"markov_head_type": "rnn"}, "markov_kind='rnn'"),
        ("dspark", "speculators", {"sample_from_anchor": False}, "sample_from_anchor"),
        ("dspark", "speculators", {"aux_hidden_state_layer_ids": [2, 5, 99]}, "tap_layers"),
        ("dspark", "speculators", {"aux_hidden_state_layer_ids": [-1, 5, 9]}, "aux_hidden_state_layer_ids=-1"),
        ("eagle3", "speculators", {"norm_output": True}, "norm_output"),
        ("eagle3", "eagle", {"fc_norm": True}, "fc_norm"),
        ("peagle", "eagle", {"target_hidden_size": 64}, "target_hidden_size"),
        ("medusa", "medusa", {"original_lm_head": False}, "original_lm_head"),
        ("medusa", "medusa", {"truncated_vocab_size": VOCAB + 1}, "truncated_vocab_size"),
    ],
)
def test_variants_that_would_draft_something_else_are_refused_by_name(
    method: str, layout: str, changes: dict[str, object], words: str, tmp_path: Path
) -> None:
    out = save_drafter_folder(tmp_path / "out", drafter(method), None, layout=layout)
    edit(out, **changes)
    with pytest.raises(ModelError, match=words):
        load_drafter_folder(out)


@pytest.mark.parametrize(
    ("net", "layout", "words"),
    [
        (drafter("dflash"), "deepspec", "for dspark"),
        (drafter("dspark"), "zlab", "for dflash"),
        (drafter("dflash", markov_rank=4), "zlab", "causal correction"),
        (drafter("peagle", markov_rank=4), "speculators", "causal correction"),
        (drafter("dflash", has_head_norms=False), "speculators", "per head"),
        (drafter("medusa"), "eagle", "for eagle3"),
        (drafter("medusa", draft_vocab_size=VOCAB), "medusa", "output matrix"),
    ],
)
def test_what_a_layout_cannot_hold_is_not_written(net: Weights, layout: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=words):
        save_drafter_folder(tmp_path / "out", net, None, layout=layout)
    assert not (tmp_path / "out").exists()


def test_an_unknown_layout_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"native.*speculators"):
        save_drafter_folder(tmp_path / "out", drafter("dflash"), None, layout="gguf")


@pytest.mark.parametrize(("method", "layout"), PLACES)
def test_a_pruned_vocabulary_without_its_map_is_refused_in_every_layout(
    method: str, layout: str, tmp_path: Path
) -> None:
    """Engines that assume the first ids instead accept next to nothing, and say nothing."""
    out = save_drafter_folder(tmp_path / "out", drafter(method), None, layout=layout)
    state = load_file(out / "model.safetensors")
    save_file({name: tensor for name, tensor in state.items() if name != "d2t"}, out / "model.safetensors")
    with pytest.raises(ModelError, match=rf"d2t is missing.*{DRAFT_VOCAB} of {VOCAB}"):
        load_drafter_folder(out)


def test_what_only_we_know_is_said_under_a_key_of_its_own(tmp_path: Path) -> None:
    out = save_drafter_folder(tmp_path / "out", drafter("peagle"), None, layout="speculators")
    assert content_of(out)["paradraft"] == {"fields": {"num_target_layers": DEPTH}}
    edit(out, paradraft={"fields": {"hidden_size": 64}})
    with pytest.raises(ModelError, match="hidden_size=64"):
        load_drafter_folder(out)


def test_the_target_that_other_engines_load_can_be_named(tmp_path: Path) -> None:
    def verifier(name: str, **options: str) -> str:
        out = save_drafter_folder(tmp_path / name, drafter("dspark"), card(), layout="speculators", **options)
        return content_of(out)["speculators_config"]["verifier"]["name_or_path"]

    assert verifier("usual") == "toy"
    assert verifier("named", verifier="owner/toy") == "owner/toy"


def test_dflash_that_drafts_from_its_anchor_is_dspark_without_heads(tmp_path: Path) -> None:
    net = drafter("dspark", markov_rank=0, has_confidence=False)
    out = save_drafter_folder(tmp_path / "out", net, None, layout="speculators")
    edit(out, speculators_model_type="dflash", sample_from_anchor=True)
    loaded = load_drafter_folder(out)
    assert replace(loaded.config, num_target_layers=DEPTH) == net.config


def test_a_folder_with_copies_of_the_targets_tables_is_read_as_it_is(tmp_path: Path) -> None:
    net = drafter("dspark", draft_vocab_size=VOCAB, has_own_embedding=True)
    full = Weights(net.config, {**net.tensors, "lm_head.weight": torch.randn(VOCAB, WIDTH)})
    out = save_drafter_folder(tmp_path / "out", full, None, layout="deepspec")
    edit(out, paradraft=None)
    loaded = load_drafter_folder(out)
    assert_same(loaded, full)
    assert loaded.config.draft_vocab_size == VOCAB
