"""What a drafting network is, as numbers: enough to build it and to know which target it fits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from paradraft.core.errors import ModelError

METHODS = ("dflash", "dspark", "eagle3", "peagle", "medusa")
MARKOV_KINDS = ("vanilla", "gated")
_MOST = 2**24  # of any size in a file; keeps products of two within what torch can count
_LARGEST_BLOCK = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class NetConfig:
    """The sizes of a drafting network and how it is tied to its target.

    tap_layers: outputs of the target's decoder layers that it reads, counted from 0, -1 the embedding. block_size: how
    many tokens one round drafts. vocab_size is the target's, draft_vocab_size how many of these ids can be drafted.
    mask_token_id stands for tokens not drafted yet. has_head_norms: queries and keys are normed per head.
    """

    method: str
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_key_heads: int
    head_dim: int
    norm_eps: float
    rope_theta: float
    max_positions: int
    vocab_size: int
    draft_vocab_size: int
    block_size: int
    mask_token_id: int
    tap_layers: tuple[int, ...]
    num_target_layers: int
    has_head_norms: bool = False
    has_mask_embedding: bool = False  # a learned vector instead of the mask token's row
    has_own_embedding: bool = False  # carries an embedding that is not the target's
    markov_rank: int = 0  # 0: no causal correction
    markov_kind: str = "vanilla"
    has_confidence: bool = False
    confidence_reads_markov: bool = True  # its input is joined by the embedding of the token before
    num_res_blocks: int = 1  # of each head, medusa only
    norm_before_residual: bool = False  # the EAGLE family's first layer goes on from the normed feature

    @property
    def num_taps(self) -> int:
        """Return how many layers are tapped."""
        return len(self.tap_layers)

    @property
    def is_reduced(self) -> bool:
        """Whether some of the target's ids cannot be drafted."""
        return self.draft_vocab_size < self.vocab_size

    @property
    def num_inputs(self) -> int:
        """Return how many tokens a block is made of: DFlash's first one, the anchor, predicts nothing."""
        return self.block_size + (self.method == "dflash")

    def check(self) -> None:
        """Raise ModelError naming the first value that cannot be right."""
        _check_choice("method", self.method, METHODS)
        _check_choice("markov_kind", self.markov_kind, MARKOV_KINDS)
        for name, low, high in _RANGES:
            _check_whole(name, getattr(self, name), low, high)
        for name in ("norm_eps", "rope_theta"):
            _check_positive(name, getattr(self, name))
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise _bad(name, getattr(self, name), "it is neither true nor false")
        self._check_relations()
        self._check_taps()

    def _check_relations(self) -> None:
        if self.num_heads % self.num_key_heads:
            raise _bad("num_key_heads", self.num_key_heads, f"it does not divide num_heads={self.num_heads}")
        if self.head_dim % 2:
            raise _bad("head_dim", self.head_dim, "rotary positions need an even one")
        if self.draft_vocab_size > self.vocab_size:
            raise _bad("draft_vocab_size", self.draft_vocab_size, f"the target has {self.vocab_size} tokens")
        if self.mask_token_id >= self.vocab_size:
            raise _bad("mask_token_id", self.mask_token_id, f"the target has {self.vocab_size} tokens")
        if self.method == "eagle3" and self.markov_rank:
            raise _bad("markov_rank", self.markov_rank, "EAGLE-3 reads every draft itself, and nothing corrects it")

    def _check_taps(self) -> None:
        if not self.tap_layers and self.method != "medusa":
            raise _bad("tap_layers", self.tap_layers, "the network reads nothing of its target")
        for layer in self.tap_layers:
            _check_whole("tap_layers", layer, -1, self.num_target_layers - 1)
        if len(set(self.tap_layers)) < len(self.tap_layers):
            raise _bad("tap_layers", self.tap_layers, "a layer is named twice")


_RANGES = (
    ("hidden_size", 1, _MOST),
    ("intermediate_size", 1, _MOST),
    ("num_layers", 0, 1024),
    ("num_heads", 1, 1024),
    ("num_key_heads", 1, 1024),
    ("head_dim", 2, 4096),
    ("max_positions", 1, _MOST),
    ("vocab_size", 1, _MOST),
    ("draft_vocab_size", 1, _MOST),
    ("block_size", 1, _LARGEST_BLOCK),
    ("mask_token_id", 0, _MOST),
    ("num_target_layers", 1, 4096),
    ("markov_rank", 0, 65536),
    ("num_res_blocks", 0, 64),
)
_FLAGS = (
    "has_head_norms",
    "has_mask_embedding",
    "has_own_embedding",
    "has_confidence",
    "confidence_reads_markov",
    "norm_before_residual",
)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise _bad(name, value, f"known are {', '.join(choices)}")


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise _bad(name, value, f"it has to be a whole number from {low} to {high}")


def _check_positive(name: str, value: object) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0.0 < value < math.inf:
        raise _bad(name, value, "it has to be a number above 0")


def _bad(name: str, value: object, reason: str) -> ModelError:
    return ModelError(
        f"A drafter with {name}={value!r} cannot be used: {reason}.",
        remedy="Check the drafter's config.json, or fetch the drafter again.",
    )
