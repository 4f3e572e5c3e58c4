"""What a drafter is fitted to: losses per slot and how much each slot counts.

Legend: A anchors, K slots, Vd draft vocabulary, p the target's law over the draft vocabulary, q the drafter's.
Sources: TV and cross-entropy mixes of DSpark (2607.05147), LK hybrid (2602.23881), expected accepted length as a loss
(AngelSpec), D-PACE weights (2605.18810).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional

from paradraft.core.errors import ConfigError

WEIGHTINGS = ("decay", "pace", "equal")
_PACE_FLOOR = 0.5
_LK_RATE = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Objective:
    """How the losses are mixed. Everything but ce (and confidence without a teacher) needs the target's last hidden.

    ce: cross-entropy to the target's own tokens; soft: the share of each that goes to the tokens which the target found
    likeliest there. kl: cross-entropy to its whole law. tv: total variation, 1 - overlap.
    lk: kl and tv, from the first to the second as the overlap grows. length: 1 - expected share of the block accepted.
    confidence: binary cross-entropy of the confidence head to the chance that a slot stands. weighting: decay
    (exp(-slot / decay)), pace (by how far the block gets) or equal.
    """

    ce: float = 1.0
    soft: float = 0.0
    kl: float = 0.0
    tv: float = 0.0
    lk: float = 0.0
    length: float = 0.0
    confidence: float = 0.1
    weighting: str = "decay"
    decay: float = 4.0

    def __post_init__(self) -> None:
        """Raise ConfigError for a value that cannot be used."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "weighting" and not (isinstance(value, (int, float)) and 0.0 <= value < 1e6):
                raise ConfigError(f"{field.name}={value!r} cannot be a weight.", remedy="Use a number of at least 0.")
        if self.weighting not in WEIGHTINGS:
            raise ConfigError(
                f"weighting={self.weighting!r} is not known.", remedy=f"Choose one of {', '.join(WEIGHTINGS)}."
            )
        if self.decay <= 0.0:
            raise ConfigError("decay=0 cannot be divided by.", remedy="Use weighting='equal', or a decay above 0.")
        if self.soft > 1.0:
            raise ConfigError(f"soft={self.soft!r} cannot be a share.", remedy="Use a share from 0 to 1.")
        if self.soft and self.needs_teacher:
            raise ConfigError(
                f"soft={self.soft!r} goes with cross-entropy alone.", remedy="Set kl, tv, lk and length to 0."
            )
        if self.ce + self.kl + self.tv + self.lk + self.length == 0.0:
            raise ConfigError("All losses have the weight 0.", remedy="Set ce to 1.")

    @property
    def needs_teacher(self) -> bool:
        """Whether the target's own law is needed at each slot, whole."""
        return self.kl + self.tv + self.lk + self.length > 0.0

    @property
    def needs_last_layer(self) -> bool:
        """Whether anything is needed of the target's law, whole or its likeliest tokens."""
        return self.needs_teacher or self.soft > 0.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Losses:
    """Sums over slots, to be divided by the weight of the whole step."""

    total: Tensor  # scalar, carries the gradient
    ce: Tensor  # scalar: cross-entropy, weighted, without gradient
    is_right: Tensor  # [A, K] bool: the first choice is the target's token
    num_slots: int  # with something to learn


def slot_weights(valid: Tensor, objective: Objective, first: int = 0) -> Tensor:
    """Return what each slot counts, [A, K], before any is predicted; pace counts its mean of about one per slot."""
    if objective.weighting != "decay":
        return valid.float()
    slots = torch.arange(first, first + valid.shape[1], device=valid.device)
    return valid * torch.exp(-slots / objective.decay)


def measure(
    logits: Tensor, labels: Tensor, teacher: Tensor | None, confidence: Tensor | None, objective: Objective
) -> Losses:
    """Return the losses of drafts.

    logits [A, K, Vd]. labels [A, K]: draft ids, -1 where there is nothing to learn. teacher [A, K, Vd]: the target's
    logits over the draft vocabulary. confidence [A, K]: raw logits.
    """
    valid = labels >= 0
    log_q = functional.log_softmax(logits.float(), dim=-1)
    ce = -log_q.gather(-1, labels.clamp_min(0)[..., None])[..., 0]
    is_right = (logits.detach().argmax(-1) == labels) & valid
    weights = _weights(ce, valid, objective)
    loss = objective.ce * ce
    chance = is_right.float()
    total = logits.new_zeros(())
    if objective.needs_teacher:
        if teacher is None:
            raise ConfigError(
                "This loss needs the target's law, and the shards have no taps of its last layer.",
                remedy="Capture with the last layer among the taps, or use ce alone.",
            )
        divergence, overlap = _against(log_q, teacher, objective)
        loss = loss + divergence
        chance = overlap.detach()
        if objective.length:
            total = total + objective.length * _missed_length(overlap, valid)
    total = total + (weights * loss)[valid].sum()
    if objective.confidence and confidence is not None:
        doubt = functional.binary_cross_entropy_with_logits(confidence.float(), chance, reduction="none")
        total = total + objective.confidence * (weights * doubt)[valid].sum()
    return Losses(total=total, ce=(weights * ce.detach())[valid].sum(), is_right=is_right, num_slots=int(valid.sum()))


def pace_weights(ce: Tensor, valid: Tensor) -> Tensor:
    """Return D-PACE weights [A, K], of mean about one: slot j counts by the chances of all blocks that reach it."""
    chance = torch.where(valid, (1.0 - _PACE_FLOOR) * torch.exp(-ce.detach()) + _PACE_FLOOR, 0.0)
    reached = torch.cumprod(chance, dim=1)
    weights = reached.flip(1).cumsum(1).flip(1) * valid
    return weights * (valid.sum() / weights.sum().clamp_min(1e-9))


def _weights(ce: Tensor, valid: Tensor, objective: Objective) -> Tensor:
    if objective.weighting == "pace":
        return pace_weights(ce, valid)
    return slot_weights(valid, objective)


def _against(log_q: Tensor, teacher: Tensor, objective: Objective) -> tuple[Tensor, Tensor]:
    """Return the weighted losses against the target's law and the overlap sum(min(p, q)), each [A, K]."""
    p = torch.softmax(teacher.float(), dim=-1)
    kl = -(p * log_q).sum(-1)
    tv = 0.5 * (p - log_q.exp()).abs().sum(-1)
    overlap = 1.0 - tv
    share = torch.exp(-_LK_RATE * overlap.detach())
    lk = share * kl + (1.0 - share) * tv
    return objective.kl * kl + objective.tv * tv + objective.lk * lk, overlap


def _missed_length(overlap: Tensor, valid: Tensor) -> Tensor:
    """Return 1 - expected share of each block that stands, summed and counted as all slots of the block."""
    stands = torch.cumprod(overlap * valid, dim=1)
    return (valid.sum(1) - stands.sum(1)).sum()
