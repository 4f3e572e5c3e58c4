"""What all drafting networks share: the frozen tables of the target, and how weights come in."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from paradraft.core.errors import ModelError
from paradraft.nets.config import NetConfig
from paradraft.nets.networks.records import TrainingBatch, TrainingOutput
from paradraft.nets.vocabulary import DraftVocabulary


class FrozenTable(nn.Module):
    """A matrix that training does not move. It is saved only where it is the network's own."""

    weight: Tensor

    def __init__(self, weight: Tensor, *, is_own: bool) -> None:
        super().__init__()
        self.register_buffer("weight", weight.detach(), persistent=is_own)


class Net(nn.Module):
    """A drafting network: its own weights, and the target's embedding [V, d] and head [Vd, d], which stay frozen.

    Names in the state are those that checkpoints use. Of the tables of the target it holds only what makes the
    network its own: the head of a reduced vocabulary, with d2t and t2d, and an embedding that is not the target's.
    """

    d2t: Tensor
    t2d: Tensor

    def __init__(self, config: NetConfig, embedding: Tensor, head: Tensor, vocabulary: DraftVocabulary) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.embed_tokens = FrozenTable(embedding, is_own=config.has_own_embedding)
        self.lm_head = FrozenTable(head, is_own=config.is_reduced)
        self.register_buffer("d2t", vocabulary.d2t, persistent=config.is_reduced)
        self.register_buffer("t2d", vocabulary.t2d, persistent=config.is_reduced)

    @property
    def num_trainable(self) -> int:
        """Return the number of weights that training moves."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    @property
    def num_served(self) -> int:
        """Return the number of weights that serving copies: all of its own, and the head whosever it is."""
        return sum(parameter.numel() for parameter in self.parameters()) + self.lm_head.weight.numel()

    def draft_training(self, example: TrainingBatch) -> TrainingOutput:
        """Return what is drafted at each anchor of the example."""
        raise NotImplementedError

    def hidden_training(self, example: TrainingBatch) -> Tensor:
        """Return what the head reads at each anchor's slots, [A, K, d], for losses that make their logits in parts."""
        return self.draft_training(example).hidden

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over these weights. Raises ModelError naming what is missing, foreign, misshapen or not finite."""
        own = self.state_dict()
        known = {*own, "embed_tokens.weight", "lm_head.weight", "d2t", "t2d"}
        for problem, names in (("missing", own.keys() - state.keys()), ("not known", state.keys() - known)):
            if names:
                raise _bad(f"{problem} {', '.join(sorted(names)[:5])}")
        for name, tensor in own.items():
            if state[name].shape != tensor.shape:
                raise _bad(f"{name} has shape {tuple(state[name].shape)}, not {tuple(tensor.shape)}")
            if state[name].is_floating_point() and not bool(torch.isfinite(state[name]).all()):
                raise _bad(f"{name} has values that are not finite")
        self.load_state_dict({name: state[name] for name in own})


def _bad(reason: str) -> ModelError:
    return ModelError(
        f"The drafter's weights do not fit its configuration: {reason}.",
        remedy="Fetch the drafter again, or export it again.",
    )
