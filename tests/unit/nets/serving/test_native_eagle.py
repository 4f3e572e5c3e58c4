"""EAGLE networks on the native core: every number format near fp32, the same bits in every company."""

from __future__ import annotations

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.errors import ProtocolError
from paradraft.nets.serving.eagle import ChainNetwork, MaskedNetwork
from paradraft.nets.serving.native_eagle import NativeChainNetwork
from paradraft.nets.serving.rounds import Marginals
from paradraft.nets.serving.serve import serve_net
from support.drafting_nets import DRAFTED, PLACE, SIZE, HandFed, block_config, joined, native_network, random_net
from support.native import needs_native

pytestmark = needs_native
METHODS = ["eagle3", "peagle"]
ALL_PARTS = {"num_layers": 2, "norm_before_residual": True}


def eagle_config(method: str, **changes):
    return block_config(method, **{**ALL_PARTS, **changes})


def taps_of(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 2 * SIZE)).astype(np.float32)


def filled(network, count: int, chunks: int = 1, slots: np.ndarray | None = None) -> HandFed:
    """Return a row that has learned `count` entries, in so many chunks."""
    row, taps = HandFed(network, slots), taps_of(count)
    for part in np.array_split(np.arange(count), chunks):
        network.append(row.context_feed(part, taps[part]))
    return row


def asked(row: HandFed, **changes):
    return row.draft_feed(11, **{"num_candidates": DRAFTED, "taps": taps_of(1, seed=2), **changes})


def tree_of(network, row: HandFed, above=(0, 0, 1, 2, 2, 1), fed=(7, 8, 9, 10, 11, 12)) -> np.ndarray:
    """Return what is said below each node of a tree two levels deep, [n, C + 1]."""
    opened = network.open_round(asked(row))
    parts = [(ints(above[part]), ints(fed[part])) for part in (slice(0, 2), slice(2, 6))]
    levels = [opened.anchors, *(opened.extend(*part) for part in parts)]
    return np.concatenate([np.column_stack([level.logits, level.log_total]) for level in levels])


def bits(marginals: Marginals, row: int = 0) -> tuple[bytes, ...]:
    return tuple(part[row].tobytes() for part in (marginals.ids, marginals.logits, marginals.log_total))


@pytest.mark.parametrize(("dtype", "error"), [("fp32", 1e-5), ("bf16", 0.03), ("int8", 0.05), ("int4", 0.3)])
@pytest.mark.parametrize("method", METHODS)
def test_every_number_format_says_about_what_torch_says(method, dtype, error):
    net = random_net(eagle_config(method), spread=0.1)
    ours, theirs = native_network(net, dtype=dtype), serve_net(net, PLACE)
    assert isinstance(theirs, ChainNetwork | MaskedNetwork)
    found, wanted = (network.draft(asked(filled(network, 20), depth=1)) for network in (ours, theirs))
    scale = np.abs(wanted.logits).mean()
    for slot in range(wanted.ids.shape[1]):
        ours_by_id = dict(zip(found.ids[0, slot].tolist(), found.logits[0, slot].tolist(), strict=True))
        theirs_by_id = dict(zip(wanted.ids[0, slot].tolist(), wanted.logits[0, slot].tolist(), strict=True))
        assert ours_by_id.keys() == theirs_by_id.keys()
        apart = [abs(ours_by_id[token] - theirs_by_id[token]) for token in ours_by_id]
        assert np.mean(apart) < error * scale
    np.testing.assert_allclose(found.log_total, wanted.log_total, atol=5 * error)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("method", METHODS)
def test_a_rows_bits_do_not_depend_on_company_chunks_slots_or_threads(method, dtype):
    net = random_net(eagle_config(method))
    heat = {"temperatures": np.array([0.7], np.float32), "num_candidates": 9}
    expected = bits(_round(native_network(net, dtype=dtype), 21, 1, None, heat))
    scattered = np.random.default_rng(3).permutation(128)
    for num_threads in (1, 2, 3):
        for chunks, slots in ((1, scattered), (7, None), (21, scattered)):
            network = native_network(net, dtype=dtype, num_threads=num_threads)
            assert bits(_round(network, 21, chunks, slots, heat)) == expected
        network = native_network(net, dtype=dtype, num_threads=num_threads)
        rows = [filled(network, count, 1, scattered[40 * number :]) for number, count in enumerate((5, 21, 0))]
        assert bits(network.draft(joined([asked(row, **heat) for row in rows])), 1) == expected


def _round(network, count: int, chunks: int, slots: np.ndarray | None, changes) -> Marginals:
    return network.draft(asked(filled(network, count, chunks, slots), **changes))


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8"])
def test_a_node_of_a_tree_has_the_bits_of_a_chain_along_its_path(dtype):
    network = native_network(random_net(eagle_config("eagle3")), dtype=dtype)
    row = filled(network, 20)
    found = tree_of(network, row)
    for node, path in enumerate([[], [7], [8], [7, 9], [8, 10], [8, 11], [7, 12]]):
        opened = network.open_round(asked(row))
        levels = [opened.anchors, *(opened.extend(ints([at]), ints([token])) for at, token in enumerate(path))]
        said = np.column_stack([levels[-1].logits, levels[-1].log_total])
        assert said.tobytes() == found[node].tobytes()


def test_a_tree_says_what_it_says_on_torch():
    net = random_net(eagle_config("eagle3"), spread=0.1)
    ours, theirs = native_network(net), serve_net(net, PLACE)
    np.testing.assert_allclose(tree_of(ours, filled(ours, 20)), tree_of(theirs, filled(theirs, 20)), atol=1e-4)


def test_trees_of_many_rows_have_slots_of_their_own_and_end_where_these_do(monkeypatch):
    net = random_net(eagle_config("eagle3"))
    monkeypatch.setattr(NativeChainNetwork, "NUM_SPARE", 6)
    network = native_network(net)
    scattered = np.random.default_rng(3).permutation(128)
    rows = [filled(network, 9, slots=scattered[number * 60 :]) for number in range(2)]
    alone = tree_of(network, rows[0], (0,) * 2 + (1, 1, 2, 2))
    opened = network.open_round(joined([asked(row) for row in rows]))
    first = opened.extend(ints([0, 0, 1, 1]), ints([7, 8, 7, 8]))
    second = opened.extend(ints([2, 2, 3, 3, 4, 4, 5, 5]), ints([9, 10, 11, 12] * 2))
    for level, wanted in ((first, alone[1:3]), (second, alone[3:])):
        said = np.column_stack([level.logits, level.log_total]).reshape(2, *wanted.shape)
        assert said[0].tobytes() == said[1].tobytes() == wanted.tobytes()
    third = ints([6] * 3)  # two rows with five slots each and six beside them hold 16 nodes, and 14 are there
    with pytest.raises(ProtocolError, match="more nodes than its rows have slots for, and the 6 beside them"):
        opened.extend(third, third)
    assert tree_of(network, rows[0], (0,) * 2 + (1, 1, 2, 2)).tobytes() == alone.tobytes()


def test_what_cannot_be_is_refused_by_name():
    network = native_network(random_net(eagle_config("peagle")))
    row = filled(network, 3)
    with pytest.raises(ProtocolError, match=r"slot 128 at 0 is outside 0 \.\. 127"):
        network.draft(asked(row, scratch_slots=ints([128, 4, 5, 6, 7])))
    with pytest.raises(ProtocolError, match="Slot 2 is fed and read as context"):
        network.draft(asked(row, scratch_slots=ints([2, 3, 5, 6, 7])))
    with pytest.raises(ProtocolError, match=r"shape \[1, 7\].*\[1, 64\]"):
        network.append(row.context_feed(np.zeros(1), np.zeros((1, 7), np.float32)))
    network.close()
    with pytest.raises(ProtocolError, match="closed"):
        network.draft(asked(row))


def test_memory_is_told():
    for method in METHODS:
        net = random_net(eagle_config(method))
        assert native_network(net, dtype="int8").extra_bytes < native_network(net).extra_bytes
