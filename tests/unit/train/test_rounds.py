"""Rounds on known texts are counted as the engine counts them, and a gap between training and serving is told."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from paradraft.core.arrays import ints
from paradraft.core.events import GenerationStats
from paradraft.train import rounds as rounds_module
from paradraft.train.evaluate import Agreement
from paradraft.train.examples import Example
from paradraft.train.rounds import Rounds, simulate_rounds
from support.nets import net_config, tiny_net


def text(length: int, prompt_len: int = 2) -> Example:
    ids = torch.arange(length)
    return Example(index=0, ids=ids, prompt_len=prompt_len, taps=torch.zeros(length, 96), last=None, source="s")


def simulated(lengths: list[int], length: int, monkeypatch: pytest.MonkeyPatch) -> Rounds:
    """Simulate a drafter of blocks of 4 that has so many drafts accepted at each anchor."""
    monkeypatch.setattr(rounds_module, "accepted_lengths", lambda *_: lengths)
    return simulate_rounds(tiny_net(net_config("peagle")), text(length), None)


def test_rounds_go_from_anchor_to_anchor(monkeypatch: pytest.MonkeyPatch) -> None:
    # Anchors 2, 5, 6; then only 4 tokens remain, which is not more than a block, so the rest is not counted in tau.
    found = simulated([2, 9, 9, 0, 4, 9, 9, 9, 9], 12, monkeypatch)
    assert (found.rounds, found.tokens) == (3, 3 + 1 + 5)
    assert found.drafted == (3, 3, 3, 3)
    assert found.standing == (2, 2, 1, 1)


def test_the_last_token_of_a_text_is_never_drafted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = simulated([4, 4, 4, 4], 6, monkeypatch)
    assert (found.rounds, found.drafted, found.standing) == (0, (1, 1, 0, 0), (1, 1, 0, 0))


def test_sums_take_blocks_of_different_lengths() -> None:
    parts = [
        Rounds(rounds=2, tokens=5, drafted=(2, 2), standing=(2, 1)),
        Rounds(rounds=1, tokens=1, drafted=(1,), standing=(0,)),
    ]
    total = Rounds.add(parts)
    assert (total.rounds, total.tokens, total.drafted, total.standing) == (3, 6, (3, 2), (2, 1))
    assert total.tau == 2.0
    assert total.by_position() == pytest.approx((2 / 3, 1 / 2))
    assert Rounds().tau == 1.0


def test_positions_where_nothing_stood_count_as_drafted() -> None:
    stats = GenerationStats(rounds=3, round_tokens=4, drafted_by_depth=(3, 3), accepted_by_depth=(1,))
    assert Rounds.served(stats).by_position() == pytest.approx((1 / 3, 0.0))


@pytest.mark.parametrize(("share", "agrees"), [(0.50, True), (0.53, True), (0.65, False), (0.05, False)])
def test_simulation_and_service_agree_within_the_sampling_error(share: float, agrees: bool) -> None:
    def rounds(stood: float) -> Rounds:
        return Rounds(rounds=900, tokens=900, drafted=(900, 900), standing=(int(900 * stood), 90))

    agreement = Agreement(offline=rounds(0.5), served=rounds(share), num_texts=9, num_other=0)
    assert agreement.agrees is agrees
    assert agreement.gaps[0] == pytest.approx(share - 0.5, abs=2e-3)


def test_a_drafter_that_serves_nothing_disagrees() -> None:
    offline = Rounds(rounds=100, tokens=150, drafted=(100,), standing=(50,))
    served = Rounds(rounds=150, tokens=150)
    assert not Agreement(offline=offline, served=served, num_texts=5, num_other=0).agrees


def test_accepted_lengths_cover_every_anchor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_module, "_AT_ONCE", 3)
    net = tiny_net(net_config("peagle"))
    example = Example(
        index=0,
        ids=torch.from_numpy(np.random.default_rng(0).integers(0, 90, 12)),
        prompt_len=4,
        taps=torch.randn(12, 96),
        last=None,
        source="s",
    )
    lengths = rounds_module.accepted_lengths(net, example, None)
    assert len(lengths) == 7
    whole = rounds_module.hits_at(net, example, ints(np.arange(4, 11)), None)
    assert lengths == whole.int().cumprod(1).sum(1).tolist()
