"""The served network says what the trained one says: cached context, chunks, scattered slots and batches included."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from paradraft.core.errors import ProtocolError
from paradraft.nets.networks.block import BlockNet
from paradraft.nets.networks.records import TrainingBatch
from paradraft.nets.serving.block import BlockNetwork
from paradraft.nets.serving.rounds import Marginals
from support.drafting_nets import (
    DRAFTED,
    PLACE,
    SIZE,
    VOCABULARY,
    HandFed,
    block_config,
    joined,
    native_network,
    random_net,
)
from support.native import needs_native

LENGTH = 24
VARIANTS = {
    "dflash": {"method": "dflash"},
    "dflash with a mask of its own": {"method": "dflash", "has_mask_embedding": True},
    "plain heads": {"method": "dspark", "has_head_norms": False},
    "vanilla": {"method": "dspark", "markov_rank": 6, "has_confidence": True},
    "gated": {"method": "dspark", "markov_rank": 6, "markov_kind": "gated", "has_confidence": True},
    "confidence apart": {
        "method": "dspark",
        "markov_rank": 6,
        "has_confidence": True,
        "confidence_reads_markov": False,
    },
}


@pytest.fixture(params=["torch", pytest.param("native", marks=needs_native)])
def serve(request):
    """Return what puts a net into service, in fp32."""
    return native_network if request.param == "native" else lambda net: BlockNetwork(net, PLACE)


def text(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return draw.integers(0, VOCABULARY, LENGTH), draw.standard_normal((LENGTH, 2 * SIZE)).astype(np.float32)


def trained(net: BlockNet, ids: np.ndarray, taps: np.ndarray, anchors: list[int]):
    """Return what the network says in training, [A, K, Vd] and [A, K]."""
    batch = TrainingBatch(
        ids=torch.from_numpy(ids),
        taps=torch.from_numpy(taps),
        anchors=torch.tensor(anchors),
        doc=torch.zeros(len(ids), dtype=torch.int64),
    )
    with torch.no_grad():
        output = net.draft_training(batch)
    confidence = None if output.confidence is None else torch.sigmoid(output.confidence).numpy()
    return output.logits.numpy(), confidence


def served(network, ids: np.ndarray, taps: np.ndarray, anchor: int, chunks: int = 3):
    row = HandFed(network)
    for part in np.array_split(np.arange(anchor), chunks) if anchor else ():
        network.append(row.context_feed(ids[part], taps[part]))
    return network.draft(row.draft_feed(int(ids[anchor]), num_candidates=DRAFTED))


def spread(marginals: Marginals, row: int, ids: np.ndarray, anchor: int, net: BlockNet) -> np.ndarray:
    """Return the marginals as logits over the draft vocabulary, the text's own tokens before each slot."""
    found = np.full((net.config.block_size, DRAFTED), np.nan)
    for slot in range(net.config.block_size):
        values = marginals.logits[row, slot]
        if marginals.correction is not None:
            values = values + marginals.correction.bias(row, slot, int(ids[anchor + slot]))
        places = net.vocabulary.draft_ids(torch.from_numpy(marginals.ids[row, slot].astype(np.int64)))
        found[slot, places] = values
    return found


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_cached_context_gives_the_logits_of_a_full_recompute(changes, serve):
    net = random_net(block_config(**changes))
    ids, taps = text()
    wanted, confidence = trained(net, ids, taps, [9, 13])
    network = serve(net)
    for place, anchor in enumerate((9, 13)):
        marginals = served(network, ids, taps, anchor)
        np.testing.assert_allclose(spread(marginals, 0, ids, anchor, net), wanted[place], atol=1e-4)
        if confidence is not None:
            chances = [marginals.confidence.chance(0, slot, int(ids[anchor + slot])) for slot in range(4)]
            np.testing.assert_allclose(chances, confidence[place], atol=1e-4)
        assert (marginals.correction is None) == (net.markov_head is None)


def test_candidates_come_best_first_and_the_rest_is_in_the_total(serve):
    net = random_net(block_config())
    ids, taps = text()
    wanted, _ = trained(net, ids, taps, [11])
    network = serve(net)
    row = HandFed(network)
    network.append(row.context_feed(ids[:11], taps[:11]))
    marginals = network.draft(
        row.draft_feed(int(ids[11]), num_candidates=5, temperatures=np.array([0.5], dtype=np.float32))
    )
    assert marginals.ids.shape == (1, 4, 5)
    assert (np.diff(marginals.logits) <= 0).all()
    np.testing.assert_array_equal(marginals.ids[0, :, 0], net.vocabulary.ids[wanted[0].argmax(-1)])
    np.testing.assert_allclose(marginals.log_total[0], np.log(np.exp(wanted[0] / 0.5).sum(-1)), atol=1e-4)


def test_rows_draft_together_as_alone_wherever_their_slots_lie(serve):
    net = random_net(block_config(markov_rank=4))
    network = serve(net)
    scattered = np.random.default_rng(3).permutation(128)
    rows, feeds, alone = [], [], []
    for number, anchor in enumerate((7, 0, 12)):
        ids, taps = text(number)
        alone.append(spread(served(serve(net), ids, taps, anchor, chunks=1), 0, ids, anchor, net))
        row = HandFed(network, scattered[40 * number : 40 * (number + 1)])
        if anchor:
            network.append(row.context_feed(ids[:anchor], taps[:anchor]))
        rows.append((ids, anchor))
        feeds.append(row.draft_feed(int(ids[anchor]), num_candidates=DRAFTED))
    together = network.draft(joined(feeds))
    for number, (ids, anchor) in enumerate(rows):
        np.testing.assert_allclose(spread(together, number, ids, anchor, net), alone[number], atol=1e-4)


def test_a_draft_leaves_no_trace_in_the_context(serve):
    net = random_net(block_config())
    network = serve(net)
    ids, taps = text()
    row = HandFed(network)
    network.append(row.context_feed(ids[:8], taps[:8]))
    first = network.draft(row.draft_feed(5))
    network.draft(row.draft_feed(17))
    again = network.draft(row.draft_feed(5))
    np.testing.assert_array_equal(first.logits, again.logits)


def test_blocks_of_one_batch_and_other_texts_do_not_see_each_other():
    net = random_net(block_config(markov_rank=4))
    (ids, taps), (others, their_taps) = text(1), text(2)
    wanted, _ = trained(net, ids, taps, [9])
    packed = TrainingBatch(
        ids=torch.from_numpy(np.concatenate([others, ids])),
        taps=torch.from_numpy(np.concatenate([their_taps, taps])),
        anchors=torch.tensor([3, LENGTH + 9, LENGTH + 15]),
        doc=torch.repeat_interleave(torch.tensor([7, 2]), LENGTH),
    )
    with torch.no_grad():
        found = net.draft_training(packed).logits[1].numpy()
    np.testing.assert_allclose(found, wanted[0], atol=1e-5)


def test_a_block_sees_the_taps_before_its_anchor_and_no_others():
    net = random_net(block_config())
    ids, taps = text()
    wanted, _ = trained(net, ids, taps, [9])
    later = taps.copy()
    later[9:] += 1.0
    np.testing.assert_array_equal(trained(net, ids, later, [9])[0], wanted)
    before = taps.copy()
    before[8] += 1.0
    assert np.abs(trained(net, ids, before, [9])[0] - wanted).max() > 1e-3


def test_a_closed_network_says_so(serve):
    network = serve(random_net(block_config()))
    row = HandFed(network)
    network.close()
    with pytest.raises(ProtocolError, match="closed"):
        network.draft(row.draft_feed(1))


def test_half_precision_serves_about_the_same():
    net = random_net(block_config(markov_rank=4), spread=0.1)
    ids, taps = text()
    wanted, _ = trained(net, ids, taps, [9])
    place = type(PLACE)(dtype=torch.bfloat16, device=PLACE.device, num_pages=16, page_size=8)
    found = spread(served(BlockNetwork(net, place), ids, taps, 9), 0, ids, 9, net)
    assert np.abs(found - wanted[0]).mean() < 0.1 * np.abs(wanted[0]).mean()
