"""A foreign model whose numbers on the paged cache are not its own is refused at load."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import PreTrainedModel

from paradraft.core.errors import ModelError
from paradraft.models.foreign.attention import PAGED, LayerPlace
from paradraft.models.foreign.check import CHECK_PAGE_SIZE, CHECK_PAGES, check_against_eager
from paradraft.models.foreign.runner import ForeignModel, TransformersRunner
from paradraft.models.foreign.survey import survey
from paradraft.models.visibility import Window
from support.foreign_models import foreign_model


def runner_of(module: PreTrainedModel, *, first_window: Window = None) -> TransformersRunner:
    """Return a runner whose first layer is believed to have this window."""
    found = survey(module)
    places = {
        part: LayerPlace(layer=place.layer, window=first_window if place.layer == 0 else place.window)
        for part, place in found.places.items()
    }
    module.set_attn_implementation(PAGED)
    model = ForeignModel(module=module, survey=replace(found, places=places), name="x", max_positions=64)
    return TransformersRunner(model, num_pages=CHECK_PAGES, page_size=CHECK_PAGE_SIZE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_right_numbers_pass_and_leave_the_model_on_the_paged_cache(dtype: torch.dtype) -> None:
    module = foreign_model("qwen3_moe").to(dtype)
    check_against_eager(runner_of(module), module, PAGED)
    assert module.config._attn_implementation == PAGED


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_wrong_belief_about_what_a_layer_sees_shows_in_the_numbers(dtype: torch.dtype) -> None:
    module = foreign_model("qwen3_moe").to(dtype)
    with pytest.raises(ModelError, match="qwen3_moe: on the paged cache its logits are off by"):
        check_against_eager(runner_of(module, first_window=1), module, PAGED)


def test_logits_that_are_not_numbers_do_not_pass() -> None:
    module = foreign_model("phi3")
    module.get_output_embeddings().weight.data[3] = float("nan")
    with pytest.raises(ModelError, match="off by nan"):
        check_against_eager(runner_of(module), module, PAGED)


def test_a_pass_that_breaks_is_reported_with_its_reason() -> None:
    module = foreign_model("phi3")
    target = runner_of(module)
    module.get_output_embeddings().weight = torch.nn.Parameter(torch.zeros(3, 3))
    with pytest.raises(ModelError, match=r"phi3: a trial pass on the paged cache fails \(RuntimeError"):
        check_against_eager(target, module, PAGED)
