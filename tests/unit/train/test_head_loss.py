"""The chunked head loss is the plain one, gradients included; a drawn part of the head estimates the whole."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from paradraft.core.errors import ProtocolError
from paradraft.train import head_loss
from paradraft.train.head_loss import Head, head_cross_entropy, head_hits
from paradraft.train.sampled_head import sample_head
from paradraft.train.soft_labels import SoftLabels
from support.nets import net_config, tiny_net

A, K, D, VD = 5, 2, 6, 11


def parts(rank: int) -> tuple[Tensor, Head, Tensor, Tensor]:
    torch.manual_seed(0)
    features = torch.randn(A, K, rank, requires_grad=True) if rank else None
    successors = torch.randn(VD, rank, requires_grad=True) if rank else None
    labels = torch.randint(0, VD, (A, K))
    labels[1, 1] = -1
    head = Head(weight=torch.randn(VD, D), features=features, successors=successors)
    return torch.randn(A, K, D, requires_grad=True), head, labels, torch.rand(A, K)


def plain_logits(hidden: Tensor, head: Head) -> Tensor:
    logits = hidden @ head.weight.T
    return logits if head.features is None or head.successors is None else logits + head.features @ head.successors.T


def some_soft_labels() -> SoftLabels:
    generator = torch.Generator().manual_seed(4)
    ids = torch.stack([torch.randperm(VD, generator=generator)[:3] for _ in range(A * K)]).view(A, K, 3)
    return SoftLabels(ids=ids, shares=0.6 * torch.softmax(torch.randn(A, K, 3, generator=generator), dim=-1))


def wanted_law(labels: Tensor, soft: SoftLabels | None) -> Tensor:
    law = functional.one_hot(labels.clamp_min(0), VD).float()
    if soft is None:
        return law
    return (0.4 * law).scatter_add(-1, soft.ids, soft.shares)


@pytest.mark.parametrize("soft", [None, some_soft_labels()], ids=["hard", "soft"])
@pytest.mark.parametrize("rank", [0, 3])
def test_loss_and_gradients_equal_those_of_whole_logits(
    rank: int, soft: SoftLabels | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_loss, "_CHUNK", 4)
    hidden, head, labels, _ = parts(rank)
    weights = 0.5 * (labels >= 0).float()
    found = head_cross_entropy(hidden, head, labels, lambda _, valid: 0.5 * valid.float(), soft)
    (2.0 * found.total).backward()
    logits = plain_logits(hidden, head)
    plain = -(wanted_law(labels, soft) * torch.log_softmax(logits, dim=-1)).sum(-1)
    total = (weights * plain).sum()
    leaves = [leaf for leaf in (hidden, head.features, head.successors) if leaf is not None]
    wanted = torch.autograd.grad(2.0 * total, leaves)
    assert found.total.item() == pytest.approx(total.item(), rel=1e-5)
    got = [hidden.grad, *([] if head.features is None else [head.features.grad])]
    got += [] if found.successors is None else [2.0 * found.successors]
    for grad, expected in zip(got, wanted, strict=True):
        assert grad is not None
        torch.testing.assert_close(grad, expected, rtol=1e-4, atol=1e-5)
    is_right = (logits.argmax(-1) == labels) & (labels >= 0)
    assert torch.equal(found.is_right, is_right)
    assert torch.equal(head_hits(hidden, head, labels), is_right)
    assert found.ce[1, 1] == 0.0


@pytest.mark.parametrize("slots", [2, 5])
def test_hidden_states_of_other_slots_than_the_labels_are_refused(slots: int) -> None:
    hidden, labels = torch.zeros(4, 3, 8), torch.zeros(4, slots, dtype=torch.long)
    head = Head(weight=torch.zeros(9, 8))
    with pytest.raises(
        ProtocolError, match=re.escape(f"(4, 3) anchors and slots, and there are labels for (4, {slots})")
    ):
        head_cross_entropy(hidden, head, labels, lambda _, valid: valid.float())
    with pytest.raises(ProtocolError):
        head_hits(hidden, head, labels)


def test_weights_may_follow_from_the_losses_of_their_block() -> None:
    hidden, head, labels, _ = parts(0)
    found = head_cross_entropy(hidden, head, labels, lambda ce, valid: ce.cumsum(1) * valid)
    assert found.total.item() == pytest.approx(float((found.ce.cumsum(1) * (labels >= 0) * found.ce).sum()), rel=1e-5)


def test_a_drawn_head_gives_the_sum_over_the_vocabulary_in_the_mean() -> None:
    net = tiny_net(net_config("peagle"))
    labels, hidden = torch.tensor([[3, 7], [7, -1]]), torch.randn(32)
    whole = (net.lm_head.weight @ hidden).double().exp().sum()
    estimates = []
    for seed in range(400):
        drawn = sample_head(net, [labels], 40, np.random.default_rng(seed))
        assert len(drawn.ids) == 40
        assert drawn.ids[drawn.labels(labels)[0]].tolist() == [3, 7]
        assert drawn.labels(labels)[1, 1] == -1
        assert drawn.counts[drawn.places[3]] == 1.0
        estimates.append(((drawn.weight @ hidden).double().exp() * drawn.counts).sum())
    found = torch.stack(estimates)
    assert abs(float(found.mean() - whole)) < 5.0 * float(found.std()) / 20.0


def test_a_head_as_large_as_the_vocabulary_is_the_whole_one() -> None:
    net = tiny_net(net_config("peagle"))
    drawn = sample_head(net, [torch.tensor([[1]])], 60, np.random.default_rng(0))
    assert torch.equal(drawn.weight, net.lm_head.weight)
    assert torch.equal(drawn.counts, torch.ones(60))
