from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from paradraft.core.arrays import ints
from paradraft.models.attention import AttentionTerms, attend, attention_entropy
from paradraft.models.kv_store import KvShape, KvStore, KvView, Slots
from paradraft.models.layout import LayoutNeeds, PassLayout, lay_out
from paradraft.models.visibility import Window
from support.passes import Row, Tree, batch_of, proposal_of, slots_of

CPU, SIZE = torch.device("cpu"), 4
HEADS, KEY_HEADS, DIM = 6, 2, 8
SCATTERED, RUN = [9, 3, 12, 4, 0, 7, *range(20, 45)], [*range(2, 33)]
TREE = Tree(tokens=[1, 2, 3, 4], parents=[-1, -1, 0, 2])
CASES = {
    "one token": (Row(tokens=range(20), cached=19, pages=RUN), Tree()),
    "one token, scattered": (Row(tokens=range(20), cached=19, pages=SCATTERED), Tree()),
    "prompt": (Row(tokens=range(13), pages=RUN), Tree()),
    "prompt, scattered": (Row(tokens=range(13), pages=SCATTERED), Tree()),
    "chunk": (Row(tokens=range(21), cached=7, pages=SCATTERED), Tree()),
    "long chunk": (Row(tokens=range(85), cached=11, pages=SCATTERED), Tree()),
    "tree": (Row(tokens=range(12), cached=11, pages=RUN), TREE),
    "tree after three tokens, scattered": (Row(tokens=range(12), cached=9, pages=SCATTERED), TREE),
    "tree without context": (Row(tokens=[1], pages=RUN), TREE),
}


class Setting:
    """Random keys and values behind rows, and the layout of a pass over them."""

    def __init__(self, cases: Sequence[tuple[Row, Tree]], window: Window) -> None:
        self.cases, self.window = cases, window
        needs = LayoutNeeds(windows=(window,), num_groups=HEADS // KEY_HEADS, dtype=torch.float32, device=CPU)
        self.layout: PassLayout = lay_out(
            batch_of([row for row, _ in cases], SIZE), proposal_of([tree for _, tree in cases]), needs
        )
        shape = KvShape(num_layers=1, num_heads=KEY_HEADS, key_dim=DIM, value_dim=DIM)
        self.store = KvStore(shape, num_pages=50 * len(cases), page_size=SIZE, dtype=torch.float32, device=CPU)
        stale = torch.full((200 * len(cases), KEY_HEADS, DIM), float("nan"))
        self.store.append(0, stale, stale, Slots.of(np.arange(len(stale), dtype=np.int32), CPU))
        generator = torch.Generator().manual_seed(3)
        self.keys = [torch.randn(self.length(case), KEY_HEADS, DIM, generator=generator) for case in cases]
        self.values = [torch.randn(self.length(case), KEY_HEADS, DIM, generator=generator) for case in cases]
        for case, keys, values in zip(cases, self.keys, self.values, strict=True):
            slots = Slots.of(slots_of(case[0].pages, SIZE, range(len(keys))), CPU)
            self.store.append(0, keys, values, slots)
        self.query = torch.randn(int(self.layout.fed_starts[-1]), HEADS, DIM, generator=generator)
        self.view = KvView(self.store, fed=self.layout.slots, seen=self.layout.seen())

    @staticmethod
    def length(case: tuple[Row, Tree]) -> int:
        return len(case[0].tokens) + len(case[1].tokens)

    def reference(self, terms: AttentionTerms) -> tuple[Tensor, Tensor]:
        """Return outputs [T, H * D] and entropies [T, H], token by token in float64."""
        outputs, entropies, at = [], [], 0
        for (row, tree), keys, values in zip(self.cases, self.keys, self.values, strict=True):
            known, positions = (
                len(row.tokens),
                [*range(len(row.tokens)), *(len(row.tokens) - 1 + d for d in tree.depths)],
            )
            for index in range(row.cached, len(keys)):
                seen = [
                    *range(min(index + 1, known)),
                    *(known + n for n in (tree.path_to(index - known) if index >= known else [])),
                ]
                seen = [key for key in seen if self.window is None or positions[index] - positions[key] < self.window]
                mixed, entropy = _one_token(self.query[at], keys[seen], values[seen], terms)
                outputs.append(mixed)
                entropies.append(entropy)
                at += 1
        return torch.stack(outputs), torch.stack(entropies)


def _one_token(query: Tensor, keys: Tensor, values: Tensor, terms: AttentionTerms) -> tuple[Tensor, Tensor]:
    mixed, entropies = [], []
    for head in range(HEADS):
        key_head = head // (HEADS // KEY_HEADS)
        scores = keys[:, key_head].double() @ query[head].double() * terms.scale
        if terms.softcap is not None:
            scores = terms.softcap * torch.tanh(scores / terms.softcap)
        if terms.sinks is not None:
            scores = torch.cat([scores, terms.sinks[head : head + 1].double()])
        weights = torch.softmax(scores, 0)[: len(keys)]
        mixed.append(weights @ values[:, key_head].double())
        entropies.append(-(weights * weights.log()).sum())
    return torch.cat(mixed), torch.stack(entropies)


TERMS = {
    "plain": AttentionTerms(scale=0.3),
    "softcap": AttentionTerms(scale=0.3, softcap=1.5),
    "sinks": AttentionTerms(scale=0.3, sinks=torch.linspace(-1, 2, HEADS)),
}


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS.keys())
@pytest.mark.parametrize("window", [None, 1, 6])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_attention_mixes_exactly_the_visible_values(case: tuple[Row, Tree], window: Window, terms: AttentionTerms):
    setting = Setting([case], window)
    outputs, _ = setting.reference(terms)
    for cache in (setting.store, setting.view):
        ours = attend(setting.query, cache, 0, setting.layout.spans[window], terms)
        torch.testing.assert_close(ours.double(), outputs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS.keys())
@pytest.mark.parametrize("window", [None, 6])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_entropy_is_that_of_the_weights(case: tuple[Row, Tree], window: Window, terms: AttentionTerms):
    setting = Setting([case], window)
    _, entropies = setting.reference(terms)
    ours = attention_entropy(setting.query, setting.view, 0, setting.layout.spans[window], terms)
    torch.testing.assert_close(ours.double(), entropies, rtol=1e-5, atol=1e-5)


def test_rows_in_one_batch_do_not_see_each_other():
    cases = [CASES["tree"], CASES["chunk"], CASES["one token"]]
    placed = [
        (Row(tokens=row.tokens, cached=row.cached, pages=[page + 50 * at for page in row.pages]), tree)
        for at, (row, tree) in enumerate(cases)
    ]
    setting = Setting(placed, None)
    outputs, entropies = setting.reference(TERMS["plain"])
    spans = setting.layout.spans[None]
    ours = attend(setting.query, setting.view, 0, spans, TERMS["plain"])
    torch.testing.assert_close(ours.double(), outputs, rtol=1e-5, atol=1e-6)
    found = attention_entropy(setting.query, setting.view, 0, spans, TERMS["plain"])
    torch.testing.assert_close(found.double(), entropies, rtol=1e-5, atol=1e-5)


def test_slots_beyond_the_row_may_hold_anything():
    """Stale slots are filled with NaN in every case of this file; this one says so on its own."""
    setting = Setting([CASES["tree"]], None)
    assert torch.isnan(setting.store.read(0, Slots.of(ints([199]), CPU))[0]).all()
    assert torch.isfinite(attend(setting.query, setting.view, 0, setting.layout.spans[None], TERMS["plain"])).all()
