"""The network a fit begins with: its sizes, its vocabulary and its first weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from paradraft.core.errors import ConfigError
from paradraft.nets.config import NetConfig
from paradraft.nets.networks.build import build_net
from paradraft.nets.networks.net import Net
from paradraft.nets.vocabulary import DraftVocabulary
from paradraft.train.target import TargetTables

STARTS = ("random", "target")
_BLOCK_METHODS = ("dflash", "dspark")
_BLOCK_TAPS, _EAGLE_TAPS = 5, 3
_LAYERS: Mapping[str, int] = MappingProxyType({"eagle3": 1, "medusa": 0})
_DEFAULT_LAYERS = 2
_LINES = 32
_MARKOV_RANK = 64
_IDENTITY = "fc.weight"


@dataclass(frozen=True, kw_only=True, slots=True)
class NetPlan:
    """The sizes of a drafter that the target does not decide; 0 and () take the usual ones."""

    method: str = "dspark"
    num_layers: int = 0
    block_size: int = 5
    draft_vocab_size: int = 8192  # cut to the target's
    tap_layers: tuple[int, ...] = ()
    intermediate_size: int = 0  # the target's
    num_key_heads: int = 0  # the target's
    markov_rank: int = -1  # 64 for dspark, none for the others
    markov_kind: str = "vanilla"
    has_confidence: bool | None = None  # where there is a correction
    has_head_norms: bool = True  # block networks only
    mask_token_id: int = 16
    start: str = "random"

    def config(self, target: TargetTables) -> NetConfig:
        """Return the network's configuration; raise ConfigError or ModelError for what cannot be."""
        if self.start not in STARTS:
            raise ConfigError(f"start={self.start!r} is not known.", remedy=f"Choose one of {', '.join(STARTS)}.")
        own, is_dspark, is_block = target.config, self.method == "dspark", self.method in _BLOCK_METHODS
        markov_rank = self.markov_rank if self.markov_rank >= 0 else _MARKOV_RANK * is_dspark
        config = NetConfig(
            method=self.method,
            hidden_size=own.hidden_size,
            intermediate_size=self.intermediate_size or own.intermediate_size,
            num_layers=self.num_layers or _LAYERS.get(self.method, _DEFAULT_LAYERS),
            num_heads=own.num_heads,
            num_key_heads=self.num_key_heads or own.num_key_heads,
            head_dim=own.head_dim,
            norm_eps=own.norm_eps,
            rope_theta=own.rope.theta,
            max_positions=own.max_positions,
            vocab_size=own.vocab_size,
            draft_vocab_size=min(self.draft_vocab_size, own.vocab_size),
            block_size=self.block_size,
            mask_token_id=self.mask_token_id,
            tap_layers=self.tap_layers or usual_taps(self.method, own.num_layers),
            num_target_layers=own.num_layers,
            has_head_norms=is_block and self.has_head_norms,
            has_mask_embedding=is_block,
            markov_rank=markov_rank,
            markov_kind=self.markov_kind,
            has_confidence=markov_rank > 0 if self.has_confidence is None else self.has_confidence,
        )
        config.check()
        return config


def usual_taps(method: str, num_layers: int) -> tuple[int, ...]:
    """Return the layers a method reads by default: spread over the target, or its last one for Medusa."""
    if method == "medusa":
        return (num_layers - 1,)
    if method in _BLOCK_METHODS:
        return tuple(dict.fromkeys(round(1 + at * (num_layers - 4) / (_BLOCK_TAPS - 1)) for at in range(_BLOCK_TAPS)))
    taps = (1, num_layers // 2 - 1, num_layers - 3)
    return tuple(dict.fromkeys(max(tap, 0) for tap in taps))


def begin_net(plan: NetPlan, target: TargetTables, counts: Tensor, *, seed: int) -> Net:
    """Return a fresh network for a target; counts [V] say how often each token is drafted for.

    The head is a slice of the target's and stays frozen. The last norm begins as the target's, whose head expects it,
    but so small that a fresh network's logits spread by 1: larger ones would have to be unlearnt first. Start "target"
    also copies the target's last layers and begins with the deepest tap alone.
    """
    config = plan.config(target)
    torch.manual_seed(seed)
    vocabulary = _vocabulary(config, counts)
    net = build_net(config, target.embedding, target.head[vocabulary.ids], vocabulary)
    weights = dict(net.named_parameters())
    with torch.no_grad():
        if config.method == "medusa":
            net.use_final_norm(target.final_norm)  # type: ignore[operator]
        elif "norm.weight" in weights:
            share = 1.0 if plan.start == "target" else _calming(target.final_norm, net.lm_head.weight)
            weights["norm.weight"].copy_(target.final_norm * share)
        if plan.start == "target":
            _copy_layers(weights, config, target)
    return net


def fold_scale(state: Mapping[str, Tensor], scale: Tensor | None) -> dict[str, Tensor]:
    """Return weights for taps as they are, from weights that were fitted to taps divided by scale [m * d]."""
    folded = dict(state)
    if scale is None or "fc.weight" not in folded:
        return folded
    folded["fc.weight"] = folded["fc.weight"] / scale
    if "mask_hidden" in folded:
        folded["mask_hidden"] = folded["mask_hidden"] * scale
    return folded


def unfold_scale(state: Mapping[str, Tensor], scale: Tensor | None) -> dict[str, Tensor]:
    """Return the weights that fold_scale makes these of."""
    return fold_scale(state, None if scale is None else 1.0 / scale)


def _calming(norm: Tensor, head: Tensor) -> float:
    """Return the share of a norm [d] at which random lines have logits of spread 1 at most."""
    lines = torch.randn(_LINES, len(norm), generator=torch.Generator().manual_seed(0))
    return min(1.0 / max(float(((lines * norm) @ head.T).std(dim=1).mean()), 1e-6), 1.0)


def uses_scale(config: NetConfig) -> bool:
    """Whether the network reads its taps through a matrix, which the scale of taps can be folded into."""
    return config.method != "medusa"


def _vocabulary(config: NetConfig, counts: Tensor) -> DraftVocabulary:
    if not config.is_reduced:
        return DraftVocabulary.full(config.vocab_size)
    return DraftVocabulary.most_frequent(counts, config.draft_vocab_size)


def _copy_layers(weights: Mapping[str, Tensor], config: NetConfig, target: TargetTables) -> None:
    """Copy the target's last layers where the shapes are the same, and let the last tap through as it is."""
    first = target.config.num_layers - config.num_layers
    for number in range(config.num_layers):
        for name, tensor in target.layer(first + number).items():
            own = weights.get(f"layers.{number}.{name}")
            if own is not None and own.shape == tensor.shape:
                own.copy_(tensor)
    fc = weights.get(_IDENTITY)
    if fc is not None:
        fc[:, -config.hidden_size :].add_(torch.eye(config.hidden_size))
