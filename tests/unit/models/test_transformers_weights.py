"""Foreign weights reach the right places, or the first one that does not is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedModel

from paradraft.core.errors import ModelError
from paradraft.models.foreign.config import read_foreign_config
from paradraft.models.foreign.weights import build_module
from support.foreign_models import foreign_model, plain_logits

TEXT = [3, 14, 15, 9, 26, 5]


def build(reference: PreTrainedModel, tensors: dict[str, torch.Tensor]) -> PreTrainedModel:
    config = read_foreign_config(reference.config.to_dict())
    return build_module(config, tensors, dtype=torch.float32, device=torch.device("cpu"))


@pytest.mark.parametrize("kind", ["mixtral", "qwen3_moe", "gpt_neox", "gpt2"])
def test_a_saved_folder_gives_the_same_model_back(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = foreign_model(kind)
    reference.save_pretrained(tmp_path)
    capsys.readouterr()
    model = build(reference, load_file(tmp_path / "model.safetensors"))
    assert torch.equal(plain_logits(model, TEXT), plain_logits(reference, TEXT))
    assert not any(weight.requires_grad for weight in model.parameters())
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model.norm.weight": None}, "the weights lack model.norm.weight"),
        ({"model.norm.weight": torch.zeros(5)}, "have other shapes than config.json says for model.norm.weight"),
        ({"model.extra.weight": torch.zeros(5)}, "tensors the architecture does not know: model.extra.weight"),
    ],
)
def test_weights_that_do_not_fit_are_named(
    change: dict[str, torch.Tensor | None], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = foreign_model("mixtral")
    changed = dict(reference.state_dict()) | change
    with pytest.raises(ModelError, match=f"mixtral: .*{reason}"):
        build(reference, {name: weight for name, weight in changed.items() if weight is not None})
    assert capsys.readouterr() == ("", "")


def test_weights_take_the_dtype_that_is_asked_for() -> None:
    reference = foreign_model("phi3")
    config = read_foreign_config(reference.config.to_dict())
    model = build_module(config, reference.state_dict(), dtype=torch.bfloat16, device=torch.device("cpu"))
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
