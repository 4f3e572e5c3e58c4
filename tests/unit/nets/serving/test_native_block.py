"""Block networks on the native core: every number format near fp32, the same bits in every company."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ProtocolError
from paradraft.nets.serving.block import BlockNetwork
from paradraft.nets.serving.rounds import Marginals
from support.drafting_nets import DRAFTED, PLACE, SIZE, HandFed, block_config, joined, native_network, random_net
from support.native import needs_native

pytestmark = needs_native
HEADS = {"markov_rank": 6, "markov_kind": "gated", "has_confidence": True}


def taps_of(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 2 * SIZE)).astype(np.float32)


def filled(network, count: int, chunks: int = 1, slots: np.ndarray | None = None) -> HandFed:
    """Return a row that has learned `count` entries, in so many chunks."""
    row, taps = HandFed(network, slots), taps_of(count)
    for part in np.array_split(np.arange(count), chunks):
        network.append(row.context_feed(part, taps[part]))
    return row


def bits(marginals: Marginals, row: int = 0) -> tuple[bytes, ...]:
    parts = (marginals.ids[row], marginals.logits[row], marginals.log_total[row])
    heads = (marginals.correction.bias(row, 1, 7), np.float64(marginals.confidence.chance(row, 2, 7)))
    return tuple(part.tobytes() for part in (*parts, *heads))


@pytest.mark.parametrize(("dtype", "error"), [("fp32", 1e-5), ("bf16", 0.03), ("int8", 0.05)])
@pytest.mark.parametrize("method", ["dspark", "dflash"])
def test_every_number_format_says_about_what_torch_says(method, dtype, error):
    net = random_net(block_config(method, **HEADS), spread=0.1)
    ours, theirs = native_network(net, dtype=dtype), BlockNetwork(net, PLACE)
    found, wanted = (
        network.draft(filled(network, 20).draft_feed(11, num_candidates=DRAFTED)) for network in (ours, theirs)
    )
    scale = np.abs(wanted.logits).mean()
    for slot in range(4):
        ours_by_id = dict(zip(found.ids[0, slot].tolist(), found.logits[0, slot].tolist(), strict=True))
        theirs_by_id = dict(zip(wanted.ids[0, slot].tolist(), wanted.logits[0, slot].tolist(), strict=True))
        assert ours_by_id.keys() == theirs_by_id.keys()
        apart = [abs(ours_by_id[token] - theirs_by_id[token]) for token in ours_by_id]
        assert np.mean(apart) < error * scale
    np.testing.assert_allclose(found.log_total, wanted.log_total, atol=5 * error)


@pytest.mark.parametrize(("num_heads", "num_key_heads"), [(9, 9), (9, 3), (4, 1)])
def test_key_heads_may_be_as_many_as_query_heads_whatever_the_target_has(num_heads, num_key_heads):
    net = random_net(block_config(num_heads=num_heads, num_key_heads=num_key_heads), spread=0.1)
    found, wanted = (
        network.draft(filled(network, 20, chunks=2).draft_feed(11))
        for network in (native_network(net), BlockNetwork(net, PLACE))
    )
    np.testing.assert_allclose(found.logits, wanted.logits, atol=1e-4)
    assert (found.ids == wanted.ids).all()


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8"])
def test_a_rows_bits_do_not_depend_on_company_chunks_slots_or_threads(dtype):
    net = random_net(block_config(**HEADS))
    expected = bits(_round(native_network(net, dtype=dtype), 21, 1, None))
    scattered = np.random.default_rng(3).permutation(128)
    for num_threads in (1, 2, 3):
        for chunks, slots in ((1, scattered), (7, None), (21, scattered)):
            network = native_network(net, dtype=dtype, num_threads=num_threads)
            assert bits(_round(network, 21, chunks, slots)) == expected
        network = native_network(net, dtype=dtype, num_threads=num_threads)
        rows = [filled(network, count, 1, scattered[40 * number :]) for number, count in enumerate((5, 21, 0))]
        assert bits(network.draft(joined([_asked(row) for row in rows])), 1) == expected


def _asked(row: HandFed):
    return row.draft_feed(11, num_candidates=9, temperatures=np.array([0.7], np.float32))


def _round(network, count: int, chunks: int, slots: np.ndarray | None) -> Marginals:
    return network.draft(_asked(filled(network, count, chunks, slots)))


def test_what_cannot_be_is_refused_by_name():
    network = native_network(random_net(block_config()))
    row = filled(network, 3)
    with pytest.raises(ProtocolError, match=r"slot 128 at 0 is outside 0 \.\. 127"):
        network.draft(row.draft_feed(1, scratch_slots=ints([128, 4, 5, 6, 7])))
    with pytest.raises(ProtocolError, match="Slot 3 is fed twice"):
        network.draft(row.draft_feed(1, scratch_slots=ints([3, 3, 5, 6, 7])))
    with pytest.raises(ProtocolError, match="Slot 2 is fed and read as context"):
        network.draft(row.draft_feed(1, scratch_slots=ints([2, 3, 5, 6, 7])))
    with pytest.raises(ProtocolError, match=r"Temperature 0\.0"):
        network.draft(row.draft_feed(1, temperatures=np.zeros(1, np.float32)))
    with pytest.raises(ProtocolError, match=r"shape \[1, 7\].*\[1, 64\]"):
        network.append(row.context_feed(np.zeros(1), np.zeros((1, 7), np.float32)))


def test_the_network_outlives_the_target_whose_threads_it_uses():
    network = native_network(random_net(block_config(**HEADS)), num_threads=3)  # the target is closed by now
    assert bits(_round(network, 12, 2, None)) == bits(_round(network, 12, 2, None))


def test_memory_is_told():
    net = random_net(block_config(**HEADS))
    wide, narrow = native_network(net), native_network(net, dtype="int8")
    assert narrow.extra_bytes < wide.extra_bytes
