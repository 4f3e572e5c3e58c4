from __future__ import annotations

import numpy as np
import pytest
import torch

from paradraft.core.arrays import ints
from paradraft.models.kv_store import KvShape, KvStore, KvView, Slots

CPU = torch.device("cpu")


def filled_store() -> KvStore:
    store = KvStore(
        KvShape(num_layers=2, num_heads=3, key_dim=4, value_dim=5),
        num_pages=8,
        page_size=4,
        dtype=torch.float32,
        device=CPU,
    )
    every = Slots.of(np.arange(32, dtype=np.int32), CPU)
    for layer in range(2):
        store.append(layer, torch.randn(32, 3, 4), torch.randn(32, 3, 5), every)
    return store


def test_consecutive_slots_are_a_run_and_others_are_not():
    assert Slots.of(ints([5, 6, 7]), CPU).index is None
    assert Slots.of(ints([5, 6, 8]), CPU).index is not None
    assert Slots.of(ints([5, 7, 6]), CPU).index is not None
    assert Slots.of(ints([4, 6, 6]), CPU).index is not None


def test_reading_a_run_copies_nothing():
    store = filled_store()
    keys, values = store.read(1, Slots.of(ints([8, 9, 10]), CPU))
    store.append(1, torch.full((1, 3, 4), 7.0), torch.full((1, 3, 5), 8.0), Slots.of(ints([9]), CPU))
    assert (keys[:, 0, 1] == 7.0).all()
    assert (values[:, 0, 1] == 8.0).all()


def test_scattered_slots_are_written_and_read_in_logical_order():
    store = filled_store()
    slots = Slots.of(ints([9, 3, 30, 4]), CPU)
    keys, values = torch.randn(4, 3, 4), torch.randn(4, 3, 5)
    store.append(0, keys, values, slots)
    got_keys, got_values = store.read(0, slots)
    assert torch.equal(got_keys[:, 0], keys.transpose(0, 1))
    assert torch.equal(got_values[:, 0], values.transpose(0, 1))
    assert torch.equal(store.read(0, Slots.of(ints([30]), CPU))[0][:, 0, 0], keys[2])


def test_appending_to_one_layer_leaves_the_other_and_the_other_slots_alone():
    store = filled_store()
    every = Slots.of(np.arange(32, dtype=np.int32), CPU)
    before = [store.read(layer, every)[0].clone() for layer in range(2)]
    store.append(0, torch.randn(1, 3, 4), torch.randn(1, 3, 5), Slots.of(ints([17]), CPU))
    assert torch.equal(store.read(1, every)[0], before[1])
    changed = (store.read(0, every)[0] != before[0]).any(-1).any(0)[0]
    assert changed.nonzero().flatten().tolist() == [17]


def test_moves_that_overlap_read_every_source_first():
    store = filled_store()
    before = [store.read(layer, Slots.of(ints([10, 11, 12, 13]), CPU)) for layer in range(2)]
    before = [(keys.clone(), values.clone()) for keys, values in before]
    store.move(ints([11, 12, 10]), ints([10, 11, 12]))
    for layer in range(2):
        keys, values = store.read(layer, Slots.of(ints([10, 11, 12, 13]), CPU))
        assert torch.equal(keys, before[layer][0][:, :, [1, 2, 0, 3]])
        assert torch.equal(values, before[layer][1][:, :, [1, 2, 0, 3]])


def test_no_moves_do_nothing():
    store = filled_store()
    store.move(ints([]), ints([]))


def test_bytes_per_token_count_keys_and_values_of_all_layers():
    shape = KvShape(num_layers=30, num_heads=3, key_dim=64, value_dim=64)
    assert shape.bytes_per_token(torch.bfloat16) == 30 * 3 * 128 * 2


@pytest.mark.parametrize("numbers", [[8, 9, 10], [20, 3, 9]], ids=["run", "scattered"])
def test_a_view_of_one_pass_writes_and_reads_as_the_store_does(numbers: list[int]):
    direct, viewed = filled_store(), filled_store()
    slots, every = Slots.of(ints(numbers), CPU), Slots.of(np.arange(32, dtype=np.int32), CPU)
    view = KvView(viewed, fed=slots, seen=[slots, every])
    for layer in range(2):
        keys, values = torch.randn(3, 3, 4), torch.randn(3, 3, 5)
        direct.append(layer, keys, values, slots)
        view.append(layer, keys, values, slots)
        for ours, theirs in zip(view.read(layer, slots), direct.read(layer, slots), strict=True):
            assert torch.equal(ours, theirs)
        assert torch.equal(view.read(layer, every)[0][:, :, numbers], direct.read(layer, slots)[0])


def test_a_closed_store_holds_no_memory():
    store = filled_store()
    store.close()
    with pytest.raises(IndexError):
        store.read(0, Slots.of(ints([1]), CPU))
