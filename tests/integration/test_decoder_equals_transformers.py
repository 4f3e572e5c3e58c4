"""The built-in decoder against transformers' modules on the same weights, for every family and rope type."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel

from paradraft.core.arrays import FloatArray
from paradraft.core.ports import Needs, Scores
from paradraft.core.records import Proposal
from paradraft.models.families import FAMILIES
from paradraft.models.runner import TorchRunner
from paradraft.models.tiny import VOCAB_SIZE, tiny_config, tiny_tensors
from support.passes import Row, Tree, batch_of, proposal_of
from support.variants import ROPES, VARIANTS

PAGE_SIZE = 8
PAGES = [3, 9, 4, 11, 0, 7, 15, 2]
LENGTH = 40  # longer than every sliding window of the tiny models
TOKENS = np.random.default_rng(5).integers(3, VOCAB_SIZE, LENGTH).tolist()
pytestmark = pytest.mark.filterwarnings("ignore")


def reference(config: Mapping[str, object], dtype: torch.dtype) -> PreTrainedModel:
    values = {key: value for key, value in config.items() if key != "model_type"}
    made = CONFIG_MAPPING[str(config["model_type"])](**values)
    model = AutoModelForCausalLM.from_config(made, attn_implementation="eager").to(dtype).eval()
    tensors = {name: tensor.to(dtype) for name, tensor in tiny_tensors(config, seed=1).items()}
    found = model.load_state_dict(tensors, strict=False)
    assert not found.unexpected_keys
    assert set(found.missing_keys) <= {"lm_head.weight"}
    model.tie_weights()
    return model


def runner(config: Mapping[str, object], dtype: torch.dtype = torch.float32, needs: Needs | None = None) -> TorchRunner:
    return TorchRunner.build(
        config,
        tiny_tensors(config, seed=1),
        dtype=dtype,
        device=torch.device("cpu"),
        num_pages=16,
        page_size=PAGE_SIZE,
        needs=needs,
    )


def score(target: TorchRunner, row: Row, tree: Tree | None = None) -> Scores:
    proposal = Proposal.empty(1) if tree is None else proposal_of([tree])
    return target.submit(batch_of([row], PAGE_SIZE), proposal).wait()


def logits(scores: Scores) -> FloatArray:
    return np.stack([scores.row(index) for index in range(int(scores.starts[-1]))])


def all_logits(target: TorchRunner, tokens: list[int]) -> FloatArray:
    return logits(score(target, Row(tokens=tokens, pages=PAGES, num_scored=len(tokens))))


def their_logits(model: PreTrainedModel, tokens: list[int]) -> FloatArray:
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].float().numpy()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("rope", ROPES.values(), ids=ROPES.keys())
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_those_of_transformers_for_each_family_and_rope(
    family: str, rope: Mapping[str, object], dtype: torch.dtype
) -> None:
    config = tiny_config(family, {"rope_parameters": dict(rope)})
    theirs = their_logits(reference(config, dtype), TOKENS)
    ours = all_logits(runner(config, dtype), TOKENS)
    assert np.abs(theirs).max() > 5  # else a tolerance would mean little
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=3e-5)
    assert (ours.argmax(-1) == theirs.argmax(-1)).all()


@pytest.mark.parametrize(("family", "changes"), VARIANTS.values(), ids=VARIANTS.keys())
def test_logits_equal_those_of_transformers_for_each_variant(family: str, changes: Mapping[str, object]) -> None:
    config = tiny_config(family, changes)
    theirs = their_logits(reference(config, torch.float32), TOKENS)
    np.testing.assert_allclose(all_logits(runner(config), TOKENS), theirs, rtol=0, atol=3e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_texts_equal_those_of_transformers(family: str) -> None:
    config = tiny_config(family)
    model, target = reference(config, torch.float32), runner(config)
    ours = theirs = TOKENS[:12]
    score(target, Row(tokens=ours[:-1], pages=PAGES, num_scored=0))
    for _ in range(30):
        best = score(target, Row(tokens=ours, cached=len(ours) - 1, pages=PAGES)).argmax()
        ours = [*ours, int(best[0])]
        theirs = [*theirs, int(their_logits(model, theirs)[-1].argmax())]
    assert ours == theirs


def test_a_token_outside_the_window_has_no_influence() -> None:
    """A model served with another mask than it was trained with answers normally and is wrong."""
    config = tiny_config("mistral", {"sliding_window": 4, "num_hidden_layers": 1})
    changed = [*TOKENS[:10], TOKENS[10] % 250 + 5, *TOKENS[11:]]
    before, after = all_logits(runner(config), TOKENS), all_logits(runner(config), changed)
    differs = np.abs(before - after).max(-1) > 1e-6
    assert differs.nonzero()[0].tolist() == [10, 11, 12, 13]


@cache
def tapped(family: str) -> tuple[FloatArray, list[FloatArray], Scores]:
    """Return transformers' hidden states (embedding first) and our taps of the same text."""
    config = tiny_config(family)
    model = reference(config, torch.float32)
    outputs: list[FloatArray] = []
    for layer in model.model.layers:
        layer.register_forward_hook(lambda _, __, output: outputs.append(output[0].numpy()))
    with torch.no_grad():
        states = model(torch.tensor([TOKENS]), output_hidden_states=True).hidden_states
    needs = Needs(sources=("test",), hidden_layers=(-1, 0, 1, 2))
    scores = score(runner(config, needs=needs), Row(tokens=TOKENS, pages=PAGES))
    return states[0][0].numpy(), outputs, scores


@pytest.mark.parametrize("family", FAMILIES)
def test_taps_are_the_outputs_of_the_layers_they_name(family: str) -> None:
    embedding, outputs, scores = tapped(family)
    np.testing.assert_array_equal(scores.hidden(-1), embedding)
    for layer, output in enumerate(outputs):
        np.testing.assert_allclose(scores.hidden(layer), output, rtol=0, atol=3e-5)


@pytest.mark.parametrize("shift", [-1, 1])
def test_taps_of_a_neighbouring_layer_would_be_noticed(shift: int) -> None:
    """Layer numbers off by one lose acceptance in silence, so neighbours must differ by more than the tolerance."""
    _, outputs, scores = tapped("llama")
    for layer, output in enumerate(outputs):
        if -1 <= layer + shift < len(outputs):
            assert np.abs(scores.hidden(layer + shift) - output).max() > 0.1


def test_attention_entropy_is_that_of_transformers_weights() -> None:
    config = tiny_config("qwen2")
    with torch.no_grad():
        attentions = reference(config, torch.float32)(torch.tensor([TOKENS]), output_attentions=True).attentions
    needs = Needs(sources=("test",), entropy_layers=(0, 1, 2))
    scores = score(runner(config, needs=needs), Row(tokens=TOKENS, pages=PAGES))
    for layer, weights in enumerate(attentions):
        entropy = torch.special.entr(weights[0].double()).sum(-1).T.numpy()
        np.testing.assert_allclose(scores.attention_entropy(layer), entropy, rtol=0, atol=1e-5)


@pytest.mark.parametrize("size", [1, 7, 8, 29])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_in_chunks_equals_the_prompt_at_once(family: str, size: int) -> None:
    config = tiny_config(family)
    whole, chunked = all_logits(runner(config), TOKENS), runner(config)
    parts = []
    for start in range(0, LENGTH, size):
        stop = min(start + size, LENGTH)
        row = Row(tokens=TOKENS[:stop], cached=start, pages=PAGES, num_scored=stop - start)
        parts.append(logits(score(chunked, row)))
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=0, atol=3e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_draft_tree_scores_as_transformers_scores_each_path(family: str) -> None:
    config = tiny_config(family)
    model, target = reference(config, torch.float32), runner(config)
    tree = Tree(tokens=[5, 9, 200, 31, 9, 77], parents=[-1, -1, 0, 0, 2, 1])
    score(target, Row(tokens=TOKENS[:30], pages=PAGES, num_scored=0))
    found = logits(score(target, Row(tokens=TOKENS[:32], cached=30, pages=PAGES), tree))
    for node in range(-1, 6):
        path = [tree.tokens[step] for step in (tree.path_to(node) if node >= 0 else [])]
        np.testing.assert_allclose(found[1 + node], their_logits(model, TOKENS[:32] + path)[-1], rtol=0, atol=3e-5)


def test_a_row_of_one_token_rounds_nearly_as_beside_drafts(capsys: pytest.CaptureFixture[str]) -> None:
    """fp32 sums differ with the number of tokens in a pass; the bound is what identity of texts rests on."""
    target = runner(tiny_config("llama"))
    score(target, Row(tokens=TOKENS[:30], pages=PAGES, num_scored=0))
    row = Row(tokens=TOKENS[:31], cached=30, pages=PAGES)
    alone = logits(score(target, row))[0]
    worst = 0.0
    for count in range(1, 18):
        tree = Tree(tokens=TOKENS[:count], parents=list(range(-1, count - 1)))
        worst = max(worst, float(np.abs(logits(score(target, row, tree))[0] - alone).max()))
    with capsys.disabled():
        print(f" [largest difference {worst:.1e}, largest logit {np.abs(alone).max():.1f}]", end="")  # noqa: T201
    assert worst < 2e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_bf16_stays_within_rounding_of_fp32(family: str) -> None:
    config = tiny_config(family)
    exact, half = all_logits(runner(config), TOKENS), all_logits(runner(config, torch.bfloat16), TOKENS)
    assert half.dtype == np.float32
    assert np.abs(half - exact).max() < 0.06 * np.abs(exact).max()
