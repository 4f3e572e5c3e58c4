"""What identifies a target, read from the target itself."""

from __future__ import annotations

import hashlib
from weakref import WeakKeyDictionary

from paradraft.core.ports import Tokenizer
from paradraft.models.checkpoint import Checkpoint, find_model, open_checkpoint
from paradraft.models.decoder_config import read_decoder_config
from paradraft.models.load import LoadedModel
from paradraft.models.tokenizer import load_tokenizer
from paradraft.nets.folder.card import TargetFacts

_DIGESTS: WeakKeyDictionary[Tokenizer, str] = WeakKeyDictionary()  # a table and a network both ask at a start


def facts_of(model: LoadedModel) -> TargetFacts:
    """Return the facts of a loaded target."""
    limits = model.target.limits
    return TargetFacts(
        name=model.identity.name,
        sha256=model.identity.sha256,
        hidden_size=limits.hidden_size,
        num_layers=limits.num_layers,
        vocab_size=limits.vocab_size,
        tokenizer_sha256=tokenizer_digest(model.tokenizer),
        template_sha256=template_digest(model.tokenizer),
    )


def facts_of_files(checkpoint: Checkpoint) -> TargetFacts:
    """Return the facts of a target of the llama family that is opened but not loaded."""
    config = read_decoder_config(checkpoint.config)
    tokenizer = load_tokenizer(checkpoint.source.path)
    return TargetFacts(
        name=checkpoint.source.name,
        sha256=checkpoint.sha256(),
        hidden_size=config.hidden_size,
        num_layers=config.num_layers,
        vocab_size=config.vocab_size,
        tokenizer_sha256=tokenizer_digest(tokenizer),
        template_sha256=template_digest(tokenizer),
    )


def open_target(name: str, *, revision: str | None = None) -> tuple[Checkpoint, TargetFacts]:
    """Return a model's checkpoint, no tensor of it read, and its facts; raise ModelError if it cannot be used."""
    checkpoint = open_checkpoint(find_model(name, revision=revision))
    return checkpoint, facts_of_files(checkpoint)


def tokenizer_digest(tokenizer: Tokenizer) -> str:
    """Return a hash of what the ids mean: their bytes, which of them are control tokens, and where texts end.

    It is the same whether a folder or a GGUF file says so.
    """
    known = _DIGESTS.get(tokenizer)
    if known is None:
        known = _DIGESTS[tokenizer] = _digest_of(tokenizer)
    return known


def _digest_of(tokenizer: Tokenizer) -> str:
    digest = hashlib.sha256()
    for token in range(tokenizer.vocab_size):
        meaning = tokenizer.token_bytes(token) if tokenizer.spelling(token) is not None else b""
        if meaning:
            kind = "control" if tokenizer.is_special(token) else "text"
            digest.update(f"{token} {kind} {len(meaning)} ".encode("ascii") + meaning)
    digest.update(f"end {sorted(tokenizer.eos_ids)} begin {tokenizer.bos_id}".encode("ascii"))
    return digest.hexdigest()


def template_digest(tokenizer: Tokenizer) -> str | None:
    """Return a hash of the chat template's text, None if there is none."""
    template = getattr(tokenizer, "chat_template", None)
    return hashlib.sha256(template.encode("utf-8")).hexdigest() if isinstance(template, str) else None
