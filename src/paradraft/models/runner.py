"""The torch runner: the built-in decoder behind the target's port, on a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from paradraft.core.arrays import FloatArray, IntArray
from paradraft.core.errors import ConfigError, ProtocolError
from paradraft.core.pass_check import check_pass, check_taps
from paradraft.core.passed import DoneTicket
from paradraft.core.ports import Limits, Needs
from paradraft.core.records import Batch, Proposal
from paradraft.models.decoder import Decoder, Taps, build_decoder
from paradraft.models.decoder_config import read_decoder_config
from paradraft.models.device import dtype_name
from paradraft.models.kv_store import KvShape, KvStore
from paradraft.models.layout import LayoutNeeds, lay_out
from paradraft.models.scores import TensorScores, to_host

NO_NEEDS = Needs(sources=())
_LARGEST_ADAPTED = 31 * 2**20


class TorchRunner:
    """Implements core.ports.Target over a decoder. It owns the cache tensors; pages are given out elsewhere."""

    def __init__(
        self, decoder: Decoder, *, num_pages: int, page_size: int, needs: Needs | None = None, name: str = ""
    ) -> None:
        """Set aside the cache; needs says which hidden states and entropies every pass records."""
        config = decoder.config
        shape = KvShape(
            num_layers=config.num_layers,
            num_heads=config.num_key_heads,
            key_dim=config.head_dim,
            value_dim=config.head_dim,
        )
        self.limits = Limits(
            name=name or config.model_type,
            runner=f"torch ({decoder.kernels_note})",
            dtype=dtype_name(decoder.dtype),
            vocab_size=config.vocab_size,
            num_layers=config.num_layers,
            hidden_size=config.hidden_size,
            max_positions=config.max_positions,
            num_pages=num_pages,
            page_size=page_size,
            bytes_per_token=shape.bytes_per_token(decoder.dtype),
            weight_bytes=decoder.weight_bytes,
        )
        self._decoder: Decoder | None = decoder
        self._store = KvStore(
            shape, num_pages=num_pages, page_size=page_size, dtype=decoder.dtype, device=decoder.device
        )
        _keep_freed_memory()
        self._taps = _taps(needs or NO_NEEDS, config.num_layers)
        self._layout_needs = LayoutNeeds(
            windows=tuple(dict.fromkeys(config.windows)),
            num_groups=config.num_heads // config.num_key_heads,
            dtype=decoder.dtype,
            device=decoder.device,
        )

    @staticmethod
    def build(
        config: Mapping[str, object],
        tensors: Mapping[str, Tensor],
        *,
        dtype: torch.dtype,
        device: torch.device,
        num_pages: int,
        page_size: int,
        needs: Needs | None = None,
    ) -> TorchRunner:
        """Return a runner for a Hugging Face configuration and its tensors; raises what its two parts raise."""
        decoder = build_decoder(read_decoder_config(config), tensors, dtype=dtype, device=device)
        return TorchRunner(decoder, num_pages=num_pages, page_size=page_size, needs=needs)

    def first_layers(self, count: int, *, num_pages: int, page_size: int) -> TorchRunner:
        """Return a runner with a cache of its own that stops behind `count` layers and shares this one's weights.

        Raises ConfigError unless count leaves some layers out.
        """
        if self._decoder is None or not 1 <= count < self.limits.num_layers:
            raise ConfigError(
                f"{self.limits.name} cannot draft with {count} of its {self.limits.num_layers} layers.",
                remedy=f"Set draft_layers to a whole number from 1 to {self.limits.num_layers - 1}.",
            )
        decoder = self._decoder.first_layers(count)
        return TorchRunner(decoder, num_pages=num_pages, page_size=page_size, name=self.limits.name)

    def submit(self, batch: Batch, proposal: Proposal) -> DoneTicket[TensorScores]:
        """Run a pass; see core.ports.Target. Raises ProtocolError for ids, places or rows that cannot be right."""
        decoder = self._open()
        check_pass(batch, proposal, self.limits)
        with torch.inference_mode():
            layout = lay_out(batch, proposal, self._layout_needs)
            result = decoder.run(layout, self._store, self._taps)
        scores = TensorScores(layout, result.logits, hidden=result.hidden, entropies=result.entropies)
        return DoneTicket(scores=scores)

    def last_hidden(self, batch: Batch) -> FloatArray:
        """Run a pass and return the final norm's output at its tokens; see core.embedding.EmbeddingTarget."""
        decoder, nothing = self._open(), Proposal.empty(batch.num_rows)
        check_pass(batch, nothing, self.limits)
        with torch.inference_mode():
            states = decoder.last_hidden(lay_out(batch, nothing, self._layout_needs), self._store)
        return to_host(states)

    def move(self, sources: IntArray, destinations: IntArray) -> None:
        """Copy cache slots; all are read before any is written."""
        with torch.inference_mode():
            self._store.move(sources, destinations)

    def close(self) -> None:
        """Free weights and cache."""
        self._decoder = None
        self._store.close()

    def _open(self) -> Decoder:
        if self._decoder is None:
            raise ProtocolError("The target is closed.", remedy="Build another one.")
        return self._decoder


def _keep_freed_memory() -> None:
    """Let glibc keep what operators free: it gives back blocks larger than any it has seen freed, up to 32 MB.

    Without this, operators on some megabytes spend most of their time in page faults (512 tokens: 1.7 ms, not 0.5).
    """
    torch.empty(_LARGEST_ADAPTED, dtype=torch.uint8)


def _taps(needs: Needs, num_layers: int) -> Taps:
    check_taps(needs, num_layers)
    return Taps(hidden_layers=frozenset(needs.hidden_layers), entropy_layers=frozenset(needs.entropy_layers))
