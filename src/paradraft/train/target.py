"""What fitting takes from the target's files: embedding, head, final norm, and layers to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from paradraft.core.errors import AlignmentError
from paradraft.models.checkpoint import Checkpoint, find_model, open_checkpoint
from paradraft.models.decoder_config import DecoderConfig, read_decoder_config
from paradraft.models.decoder_names import EMBEDDING, FINAL_NORM, HEAD
from paradraft.models.tables import Tables
from paradraft.models.tensors import stored_of


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TargetTables:
    """A target, opened but not loaded."""

    name: str
    config: DecoderConfig
    checkpoint: Checkpoint
    embedding: Tensor  # [V, d] fp32
    head: Tensor  # [V, d] fp32, the embedding itself where they are tied
    final_norm: Tensor  # [d] fp32

    @property
    def tables(self) -> Tables:
        """Return embedding and head."""
        embedding = stored_of(self.embedding)
        return Tables(embedding=embedding, head=embedding if self.config.is_tied else stored_of(self.head))

    def layer(self, number: int) -> dict[str, Tensor]:
        """Return the tensors of a decoder layer by their names within it, fp32."""
        prefix = f"model.layers.{number}."
        weights = self.checkpoint.weights
        return {name.removeprefix(prefix): weights[name].float() for name in weights if name.startswith(prefix)}


def open_target(source: str) -> TargetTables:
    """Open a target of the llama family by name, folder or file; raise ModelError for anything else."""
    checkpoint = open_checkpoint(find_model(source))
    config = read_decoder_config(checkpoint.config)
    embedding = checkpoint.weights[EMBEDDING].float()
    return TargetTables(
        name=checkpoint.source.name,
        config=config,
        checkpoint=checkpoint,
        embedding=embedding,
        head=embedding if config.is_tied else checkpoint.weights[HEAD].float(),
        final_norm=checkpoint.weights[FINAL_NORM].float(),
    )


def require_target(facts: Mapping[str, str | int | None], target: TargetTables, shards: Path) -> None:
    """Raise AlignmentError if shards with these facts were captured from another target."""
    own = {"hidden_size": target.config.hidden_size, "vocab_size": target.config.vocab_size}
    own["num_layers"] = target.config.num_layers
    wrong = [name for name, value in own.items() if name in facts and facts[name] != value]
    sha256 = target.checkpoint.sha256()
    if wrong or facts.get("sha256", sha256) not in (sha256, None):
        what = ", ".join(wrong) or "weights"
        raise AlignmentError(
            f"{shards} was captured from {facts.get('name')}, whose {what} are not those of {target.name}.",
            remedy="Name the target that the shards were captured from.",
        )
