"""The two tables that drafting networks borrow from their target: what its tokens are on the way in and out."""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.core.errors import ModelError
from paradraft.models.checkpoint import Checkpoint, Source, open_checkpoint
from paradraft.models.decoder_names import EMBEDDING, FINAL_NORM, HEAD
from paradraft.models.load import ModelIdentity
from paradraft.models.stored import StoredTensor, Table


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tables:
    """The target's embedding and head, [V, d] each, in the format of the file (fp32 if quantised); tied ones are one.

    Of tables in files only those rows are read that are asked for.
    """

    embedding: Table
    head: Table


def read_tables(identity: ModelIdentity) -> Tables:
    """Return the tables of a loaded model, read from its files again: what runs has them laid out for the machine.

    Raises ModelError for an architecture that calls them otherwise.
    """
    return tables_of(open_checkpoint(Source(name=identity.name, path=identity.path, revision=identity.revision)))


def tables_of(checkpoint: Checkpoint) -> Tables:
    """Return the tables of a model that is opened but not loaded; raise ModelError if it calls them otherwise."""
    weights = checkpoint.stored
    if EMBEDDING not in weights:
        raise ModelError(
            f"{checkpoint.source.name} has no tensor {EMBEDDING}, so a drafter cannot share it.",
            remedy="Use a model of the llama family, or a drafter that brings its own embedding and head.",
        )
    embedding = weights.table(EMBEDDING)
    return Tables(embedding=embedding, head=weights.table(HEAD) if HEAD in weights else embedding)


def read_final_norm(identity: ModelIdentity) -> StoredTensor:
    """Return the weight [d] of a loaded model's last norm; raise ModelError if it calls it otherwise."""
    source = Source(name=identity.name, path=identity.path, revision=identity.revision)
    weights = open_checkpoint(source).stored
    if FINAL_NORM not in weights:
        raise ModelError(
            f"{identity.name} has no tensor {FINAL_NORM}, and the drafter reads what is behind that norm.",
            remedy="Use a model of the llama family, or a drafter that brings norm.weight along.",
        )
    return weights[FINAL_NORM]
