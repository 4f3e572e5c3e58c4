"""The target for every architecture that transformers knows and the built-in decoder does not.

The model's own modules run on all fed tokens laid in one line [1, T]; only their attention is ours, over the same
paged cache, ragged rows and draft trees as the built-in decoder's. Slower, and said so in the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from paradraft.core.arrays import FloatArray, IntArray
from paradraft.core.errors import ProtocolError
from paradraft.core.passed import DoneTicket
from paradraft.core.ports import Limits, Needs
from paradraft.core.records import Batch, Proposal
from paradraft.models.device import dtype_name
from paradraft.models.foreign.attention import PAGED, ForeignPass
from paradraft.models.foreign.check import CHECK_PAGE_SIZE, CHECK_PAGES, check_against_eager
from paradraft.models.foreign.config import max_positions, read_foreign_config
from paradraft.models.foreign.survey import Survey, survey
from paradraft.models.foreign.taps import check_layers, hook_taps
from paradraft.models.foreign.weights import build_module
from paradraft.models.kv_store import KvStore
from paradraft.models.layout import LayoutNeeds, PassLayout, lay_out
from paradraft.models.scores import TensorScores, to_host

RUNNER = "transformers (eager modules), slower than the built-in decoder"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ForeignModel:
    """A model that was surveyed and found to give the right numbers on the paged cache."""

    module: PreTrainedModel
    survey: Survey
    name: str
    max_positions: int


def load_foreign(
    config: Mapping[str, object],
    tensors: Mapping[str, Tensor],
    *,
    name: str,
    dtype: torch.dtype,
    device: torch.device,
) -> ForeignModel:
    """Build the model of a config.json with these tensors, look it over and check its numbers.

    Raises ModelError with the reason if the architecture or the weights cannot be served.
    """
    parsed = read_foreign_config(config)
    module = build_module(parsed, tensors, dtype=dtype, device=device)
    model = ForeignModel(module=module, survey=survey(module), name=name, max_positions=max_positions(parsed))
    module.set_attn_implementation(PAGED)
    trial = TransformersRunner(model, num_pages=CHECK_PAGES, page_size=CHECK_PAGE_SIZE)
    check_against_eager(trial, module, PAGED)
    trial.close()
    return model


class TransformersRunner:
    """Implements core.ports.Target over a model's own modules, with attention over the paged cache."""

    def __init__(self, model: ForeignModel, *, num_pages: int, page_size: int, needs: Needs | None = None) -> None:
        """Set the cache aside and tap the layers that needs names; raise ProtocolError for layers that do not exist."""
        module, found = model.module, model.survey
        hidden_layers = needs.hidden_layers if needs else ()
        self._entropy_layers = frozenset(needs.entropy_layers if needs else ())
        check_layers(hidden_layers, self._entropy_layers, len(found.layers))
        self._module: PreTrainedModel | None = module
        self._places = found.places
        self._hooks = hook_taps(found.layers, hidden_layers)
        self._store = KvStore(
            found.shape, num_pages=num_pages, page_size=page_size, dtype=module.dtype, device=module.device
        )
        self._layout_needs = LayoutNeeds(
            windows=found.windows,
            num_groups=found.num_heads // found.shape.num_heads,
            dtype=module.dtype,
            device=module.device,
        )
        self.limits = _limits(model, num_pages, page_size)

    def submit(self, batch: Batch, proposal: Proposal) -> DoneTicket[TensorScores]:
        """Run a pass; it writes the cache slots of the fed tokens and no others.

        Raises ProtocolError if a position lies beyond the model's context or the target is closed.
        """
        module, layout = self._open(), self._lay_out(batch, proposal)
        now = self._pass(layout)
        with torch.inference_mode():
            logits: Tensor = module(
                input_ids=layout.tokens[None],
                position_ids=layout.positions[None],
                use_cache=False,
                logits_to_keep=0 if layout.scored is None else layout.scored,
                paradraft_pass=now,
            ).logits[0]
        return DoneTicket(scores=TensorScores(layout, logits.float(), hidden=now.taps, entropies=now.entropies))

    def last_hidden(self, batch: Batch) -> FloatArray:
        """Run a pass and return the model's own last hidden state; see core.embedding.EmbeddingTarget."""
        module, layout = self._open(), self._lay_out(batch, Proposal.empty(batch.num_rows))
        with torch.inference_mode():
            states: Tensor = module.base_model(
                input_ids=layout.tokens[None],
                position_ids=layout.positions[None],
                use_cache=False,
                paradraft_pass=self._pass(layout),
            ).last_hidden_state[0]
        return to_host(states)

    def move(self, sources: IntArray, destinations: IntArray) -> None:
        """Copy cache slots in every layer; all are read before any is written."""
        self._store.move(sources, destinations)

    def close(self) -> None:
        """Free the cache, take the taps off the model and let go of it."""
        for hook in self._hooks:
            hook.remove()
        self._module = None
        self._places = {}
        self._store.close()

    def _open(self) -> PreTrainedModel:
        if self._module is None:
            raise ProtocolError("The target is closed.", remedy="Build another one.")
        return self._module

    def _lay_out(self, batch: Batch, proposal: Proposal) -> PassLayout:
        layout = lay_out(batch, proposal, self._layout_needs)
        if layout.highest_position >= self.limits.max_positions:
            raise ProtocolError(
                f"position {layout.highest_position} lies beyond the context of {self.limits.max_positions}.",
                remedy="End rows before the model's context does.",
            )
        return layout

    def _pass(self, layout: PassLayout) -> ForeignPass:
        return ForeignPass(layout=layout, store=self._store, places=self._places, entropy_layers=self._entropy_layers)


def _limits(model: ForeignModel, num_pages: int, page_size: int) -> Limits:
    config, shape = model.module.config, model.survey.shape
    weights = {weight.data_ptr(): weight.numel() * weight.itemsize for weight in model.module.parameters()}
    return Limits(
        name=model.name,
        runner=RUNNER,
        dtype=dtype_name(model.module.dtype),
        vocab_size=int(config.vocab_size),
        num_layers=shape.num_layers,
        hidden_size=int(config.hidden_size),
        max_positions=model.max_positions,
        num_pages=num_pages,
        page_size=page_size,
        bytes_per_token=shape.bytes_per_token(model.module.dtype),
        weight_bytes=sum(weights.values()),
    )
