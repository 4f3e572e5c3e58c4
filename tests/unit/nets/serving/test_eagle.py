"""What is served from the cache is what the network says when everything is computed anew."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from paradraft.core.arrays import ints
from paradraft.core.errors import ProtocolError
from paradraft.nets.networks.medusa import MedusaNet
from paradraft.nets.networks.records import TrainingBatch
from paradraft.nets.serving.eagle import ChainNetwork
from paradraft.nets.serving.medusa import MedusaNetwork
from paradraft.nets.serving.native_eagle import NativeChainNetwork
from paradraft.nets.serving.serve import serve_net
from support.eagle_texts import LENGTHS, PLACE, draft_feed, expected, feed_texts, logits_of, served
from support.native import needs_native
from support.nets import example_of, net_config, tiny_net


@pytest.fixture(params=[False, pytest.param(True, marks=needs_native)], ids=["torch", "native"])
def is_native(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.mark.parametrize("is_scattered", [False, True])
@pytest.mark.parametrize("chunk", [1, 3, 50])
@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("eagle3", {"num_layers": 1}),
        ("eagle3", {"num_layers": 2}),
        ("eagle3", {"norm_before_residual": True}),
        ("peagle", {"num_layers": 1}),
        ("peagle", {"num_layers": 3}),
        ("peagle", {"has_head_norms": True}),
    ],
    ids=str,
)
def test_a_cached_round_equals_a_full_recomputation(
    method: str, changes: dict[str, object], chunk: int, is_scattered: bool, is_native: bool
) -> None:
    net, network = served(method, is_native=is_native, **changes)
    example, ends = example_of(net.config, LENGTHS, []), [10, 6]
    feed_texts(network, example, ends, chunk, is_scattered=is_scattered)
    marginals = network.draft(draft_feed(example, ends, is_scattered=is_scattered))
    drafted = marginals.ids[:, :, 0]
    wanted = expected(net, example, ends, drafted)
    np.testing.assert_allclose(logits_of(marginals.ids, marginals.logits), wanted, atol=1e-4)
    heat = np.array([1.0, 0.5])[:, None, None]
    totals = torch.logsumexp(torch.from_numpy(wanted / heat), dim=-1)
    np.testing.assert_allclose(marginals.log_total, totals, atol=1e-4)


def test_rows_together_draft_what_they_draft_alone(is_native: bool) -> None:
    for method in ("eagle3", "peagle"):
        net, network = served(method, is_native=is_native)
        example, ends = example_of(net.config, LENGTHS, []), [10, 6]
        feed_texts(network, example, ends, 50, is_scattered=False)
        both = network.draft(draft_feed(example, ends))
        alone = network.draft(draft_feed(example, ends[:1]))
        assert both.ids[0].tolist() == alone.ids[0].tolist()
        np.testing.assert_allclose(both.logits[0], alone.logits[0], atol=1e-5)


def test_a_row_without_context_drafts_from_its_anchor_alone(is_native: bool) -> None:
    for method in ("eagle3", "peagle"):
        net, network = served(method, is_native=is_native)
        example, ends = example_of(net.config, LENGTHS, []), [0, 0]
        marginals = network.draft(draft_feed(example, ends))
        wanted = expected(net, example, ends, marginals.ids[:, :, 0])
        np.testing.assert_allclose(logits_of(marginals.ids, marginals.logits), wanted, atol=1e-4)


def test_a_tree_says_below_each_node_what_a_chain_along_its_path_says(is_native: bool) -> None:
    net, network = served("eagle3", num_layers=2, is_native=is_native)
    example, ends = example_of(net.config, LENGTHS, []), [10, 6]
    feed_texts(network, example, ends, 50, is_scattered=False)
    assert isinstance(network, ChainNetwork | NativeChainNetwork)
    opened = network.open_round(draft_feed(example, ends))
    #  row 0: two children of the anchor, then two grandchildren under the first and one under the second; row 1: a path
    first = opened.extend(ints([0, 0, 1]), ints([7, 8, 9]))
    second = opened.extend(ints([2, 2, 3, 4]), ints([11, 12, 13, 14]))
    found = logits_of(first.ids, first.logits), logits_of(second.ids, second.logits)
    paths = [(0, [7, 11]), (0, [7, 12]), (0, [8, 13]), (1, [9, 14])]
    for at, (row, path) in enumerate(paths):
        drafted = np.zeros((2, 5), dtype=np.int32)
        drafted[row, : len(path)] = path
        wanted = expected(net, example, ends, drafted)[row]
        np.testing.assert_allclose(found[1][at], wanted[2], atol=1e-4)
        np.testing.assert_allclose(found[0][[0, 0, 1, 2][at]], wanted[1], atol=1e-4)


def test_a_round_leaves_nothing_behind(is_native: bool) -> None:
    for method in ("eagle3", "peagle"):
        net, network = served(method, is_native=is_native)
        example, ends = example_of(net.config, LENGTHS, []), [10, 6]
        feed_texts(network, example, ends, 50, is_scattered=False)
        first, second = (network.draft(draft_feed(example, ends)) for _ in range(2))
        assert np.array_equal(first.logits, second.logits)


def test_a_chain_goes_as_deep_as_asked_and_a_block_is_always_whole(is_native: bool) -> None:
    for method, depths in (("eagle3", [1, 2, 4]), ("peagle", [4, 4, 4])):
        net, network = served(method, is_native=is_native)
        example, ends = example_of(net.config, LENGTHS, []), [3, 2]
        feed_texts(network, example, ends, 50, is_scattered=False)
        assert [network.draft(draft_feed(example, ends, depth)).ids.shape[1] for depth in (1, 2, 9)] == depths


def test_parallel_drafts_come_from_one_pass(monkeypatch: pytest.MonkeyPatch, is_native: bool) -> None:
    for method, passes in (("eagle3", 4), ("peagle", 1)):
        net, network = served(method, is_native=is_native)
        example, ends = example_of(net.config, LENGTHS, []), [3, 2]
        runs, count = network.opened(), []
        run = runs.run
        monkeypatch.setattr(runs, "run", lambda *parts, run=run, count=count: count.append(1) or run(*parts))
        network.draft(draft_feed(example, ends))
        assert len(count) == passes


def test_a_closed_network_says_so(is_native: bool) -> None:
    net, network = served("eagle3", is_native=is_native)
    network.close()
    with pytest.raises(ProtocolError, match="closed"):
        network.draft(draft_feed(example_of(net.config, LENGTHS, []), [3, 2]))


def test_parallel_slots_carry_correction_and_confidence(is_native: bool) -> None:
    net, network = served("peagle", is_native=is_native, markov_rank=4, has_confidence=True)
    example, ends = example_of(net.config, LENGTHS, []), [10, 6]
    feed_texts(network, example, ends, 50, is_scattered=False)
    marginals = network.draft(draft_feed(example, ends))
    assert marginals.correction is not None
    assert marginals.confidence is not None
    logits = marginals.logits.copy()
    for row in range(2):
        for slot in range(4):
            previous = 17 if slot else int(draft_feed(example, ends).anchors[row])
            logits[row, slot] += marginals.correction.bias(row, slot, previous)
    wanted = expected(net, example, ends, np.full((2, 5), 17, dtype=np.int32))
    np.testing.assert_allclose(logits_of(marginals.ids, logits), wanted, atol=1e-4)


@pytest.mark.parametrize("num_res_blocks", [0, 1, 2])
def test_served_medusa_heads_say_what_the_network_says(num_res_blocks: int) -> None:
    net = tiny_net(net_config("medusa", num_res_blocks=num_res_blocks))
    assert isinstance(net, MedusaNet)
    net.use_final_norm(torch.linspace(0.5, 1.5, 32))
    network = serve_net(net, PLACE)
    assert isinstance(network, MedusaNetwork)
    example, ends = example_of(net.config, LENGTHS, []), [10, 6]
    marginals = network.draft(draft_feed(example, ends))
    with torch.no_grad():
        wanted = net.draft_training(
            TrainingBatch(ids=example.ids, taps=example.taps, anchors=torch.tensor([11, 20]), doc=example.doc)
        ).logits
    found = logits_of(marginals.ids, marginals.logits)[..., net.vocabulary.ids]
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    network.close()
    with pytest.raises(ProtocolError, match="closed"):
        network.draft(draft_feed(example, ends))
