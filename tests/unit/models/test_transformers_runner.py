"""Foreign models on the paged cache give what transformers itself gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from paradraft.core.arrays import FloatArray
from paradraft.core.errors import ProtocolError
from paradraft.core.ports import Needs, Scores
from paradraft.core.records import Proposal
from paradraft.models.foreign.runner import RUNNER, TransformersRunner, load_foreign
from support.foreign_models import FOREIGN, VOCAB_SIZE, foreign_model, plain_logits
from support.passes import Row, Tree, batch_of, proposal_of
from support.targets import NUM_PAGES, PAGE_SIZE, TAPS, foreign

TEXT = [3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 32, 3, 8, 46, 26]
TREE = Tree(tokens=[40, 41, 42, 43], parents=[-1, -1, 1, 2])
PAGES = [6, 2, 9, 3, 11, 1]


def run(target: TransformersRunner, row: Row, tree: Tree | None = None) -> Scores:
    proposal = Proposal.empty(1) if tree is None else proposal_of([tree])
    return target.submit(batch_of([row], PAGE_SIZE), proposal).wait()


def logits(scores: Scores) -> FloatArray:
    return np.stack([scores.row(index) for index in range(int(scores.starts[-1]))])


def decode_in_steps(target: TransformersRunner, text: Sequence[int], sizes: Sequence[int]) -> FloatArray:
    """Feed a text in chunks of these sizes and return the logits at every token."""
    parts, cached = [], 0
    for size in sizes:
        row = Row(tokens=text[: cached + size], cached=cached, pages=PAGES, num_scored=size)
        parts.append(logits(run(target, row)))
        cached += size
    return np.concatenate(parts)


@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_chunks_and_trees_score_as_in_transformers(kind: str) -> None:
    reference, target = foreign_model(kind), foreign(kind)
    ours = decode_in_steps(target, TEXT, [7, 1, 1, 4, 1])
    np.testing.assert_allclose(ours, plain_logits(reference, TEXT[:14]), rtol=1e-4, atol=1e-4)
    nodes = logits(run(target, Row(tokens=TEXT[:15], cached=14, pages=PAGES), TREE))
    for node, path in ((1, [40]), (4, [41, 42, 43])):
        np.testing.assert_allclose(nodes[node], plain_logits(reference, [*TEXT[:15], *path])[-1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["mixtral", "qwen3_moe", "olmoe", "gpt_oss", "deepseek_v2"])
def test_experts_answer_a_row_the_same_whatever_rows_share_the_batch(kind: str) -> None:
    target = foreign(kind)
    row = Row(tokens=TEXT[:6], pages=PAGES)
    alone = logits(run(target, row))[0]
    for seed in range(4):
        others = np.random.default_rng(seed).integers(3, VOCAB_SIZE, size=(3, 7)).tolist()
        rows = [row, *(Row(tokens=other, pages=[12 + 2 * at, 13 + 2 * at]) for at, other in enumerate(others))]
        together = logits(target.submit(batch_of(rows, PAGE_SIZE), Proposal.empty(4)).wait())[0]
        np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["llama", "mixtral", "gpt_neox", "gpt2", "gemma3_text"])
def test_taps_are_the_outputs_of_the_layers(kind: str) -> None:
    with torch.inference_mode():
        states = foreign_model(kind)(torch.tensor([TEXT]), output_hidden_states=True).hidden_states
    scores = run(foreign(kind), Row(tokens=TEXT, pages=PAGES))
    for layer in (-1, 0):
        np.testing.assert_allclose(scores.hidden(layer), states[layer + 1][0].numpy(), rtol=1e-4, atol=1e-4)
    assert scores.hidden(2).shape == (len(TEXT), 32)
    with pytest.raises(ProtocolError, match="layer 1 were not recorded"):
        scores.hidden(1)


@pytest.mark.parametrize("kind", ["mixtral", "gemma2", "gpt_neox"])
def test_attention_entropy_is_that_of_the_models_own_weights(kind: str) -> None:
    with torch.inference_mode():
        weights = foreign_model(kind)(torch.tensor([TEXT]), output_attentions=True).attentions
    scores = run(foreign(kind), Row(tokens=TEXT, pages=PAGES))
    for layer in TAPS.entropy_layers:
        expected = torch.special.entr(weights[layer][0]).sum(-1).T.numpy()
        np.testing.assert_allclose(scores.attention_entropy(layer), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["mixtral", "gemma2", "phi3"])
def test_bf16_logits_are_fp32_and_near_those_of_transformers(kind: str) -> None:
    reference = foreign_model(kind).to(torch.bfloat16)
    ours = logits(run(foreign(kind, dtype=torch.bfloat16), Row(tokens=TEXT, pages=PAGES, num_scored=len(TEXT))))
    theirs = plain_logits(reference, TEXT).numpy()
    assert ours.dtype == np.float32
    assert np.median(np.linalg.norm(ours - theirs, axis=1) / np.linalg.norm(theirs, axis=1)) < 0.03


def test_limits_say_that_it_is_the_slower_path() -> None:
    limits = foreign("mixtral").limits
    assert limits.runner == RUNNER
    assert "slower" in limits.runner
    assert (limits.name, limits.dtype, limits.vocab_size) == ("mixtral", "fp32", VOCAB_SIZE)
    assert (limits.num_layers, limits.hidden_size, limits.max_positions) == (3, 32, 64)
    assert (limits.num_pages, limits.page_size) == (NUM_PAGES, PAGE_SIZE)
    assert limits.bytes_per_token == 3 * 2 * (8 + 8) * 4
    assert limits.weight_bytes == sum(weight.nbytes for weight in foreign_model("mixtral").parameters())


def test_a_token_beyond_the_context_is_a_broken_contract() -> None:
    target = foreign("phi3", max_position_embeddings=16)
    run(target, Row(tokens=TEXT, pages=PAGES))
    with pytest.raises(ProtocolError, match="position 16 lies beyond the context of 16"):
        run(target, Row(tokens=[*TEXT, 5], cached=16, pages=PAGES))


def test_frequencies_of_longrope_stay_as_they_are_over_the_whole_context() -> None:
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0, 1.1, 1.2, 1.3],
        "long_factor": [4.0, 5.0, 6.0, 7.0],
    }
    target = foreign(
        "phi3", rope_parameters=rope, max_position_embeddings=64, original_max_position_embeddings=len(TEXT)
    )
    assert target.limits.max_positions == len(TEXT)
    stepwise = decode_in_steps(target, TEXT, [1] * len(TEXT))
    at_once = decode_in_steps(target, TEXT, [len(TEXT)])
    np.testing.assert_allclose(stepwise, at_once, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("needs", "named"),
    [
        (Needs(sources=("x",), hidden_layers=(3,)), "layer 3 cannot be tapped: there are layers -1 to 2"),
        (Needs(sources=("x",), entropy_layers=(-1,)), "layer -1 cannot be tapped: there are layers 0 to 2"),
    ],
)
def test_taps_of_layers_that_do_not_exist_are_refused(needs: Needs, named: str) -> None:
    reference = foreign_model("phi3")
    model = load_foreign(
        reference.config.to_dict(),
        reference.state_dict(),
        name="phi3",
        dtype=torch.float32,
        device=torch.device("cpu"),
    )
    with pytest.raises(ProtocolError, match=named):
        TransformersRunner(model, num_pages=4, page_size=4, needs=needs)


def test_a_closed_target_says_so_and_leaves_the_model_untapped() -> None:
    target = foreign("phi3")
    target.close()
    with pytest.raises(ProtocolError, match="closed"):
        run(target, Row(tokens=TEXT[:3], pages=PAGES))
