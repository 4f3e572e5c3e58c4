"""The card of a drafter folder: for which target it was trained, on what, and what it reached."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from paradraft.core.errors import AlignmentError, ModelError
from paradraft.nets.config import NetConfig
from paradraft.nets.formats.keys import Keys, read_keys

CARD = "card.json"
VERSION = 1
_OTHER_TARGET = "Use a drafter that was trained for this target, or train one with `paradraft train`."
_NO_FACTS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetFacts:
    """What identifies a target. Hashes are SHA-256 in hexadecimal, None where they are not known."""

    name: str
    sha256: str | None  # of the weight files
    hidden_size: int
    num_layers: int
    vocab_size: int  # rows of the embedding
    tokenizer_sha256: str | None  # of what the ids mean, whatever file says so
    template_sha256: str | None  # of the chat template's text; None: no template


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSource:
    """Where training text came from."""

    name: str
    licence: str
    num_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """Who a drafter belongs to, and where it comes from.

    What the network's own configuration says too (taps, block, vocabulary) is filled in when the folder is written,
    as is the hash of the weights. acceptance: measured figures by what they are, such as "mt-bench T=0 tau".
    """

    target: TargetFacts
    revision: str | None = None  # the hub's commit of the target
    method: str = ""
    tap_layers: tuple[int, ...] = ()  # outputs of the target's layers from 0, -1 the embedding
    block_size: int = 0  # drafts per round
    draft_vocab_size: int = 0
    weights_sha256: str | None = None  # of model.safetensors beside the card
    sources: tuple[TrainingSource, ...] = ()
    training: Mapping[str, object] = field(default_factory=lambda: _NO_FACTS)  # the recipe
    acceptance: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    licence: str = ""


def plain_card(card: Card) -> dict[str, object]:
    """Return a card as its file has it."""
    plain = replace(card, training=dict(card.training), acceptance=dict(card.acceptance))
    return {"version": VERSION, **asdict(plain)}


def write_card(path: Path, card: Card) -> None:
    """Write a card as JSON."""
    text = json.dumps(plain_card(card), indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def read_card(path: Path) -> Card | None:
    """Return a folder's card, None if it has none; raise ModelError if a value in it cannot be right."""
    if not path.exists():
        return None
    keys = read_keys(path)
    if keys.whole("version", low=1) > VERSION:
        raise ModelError(f"{path} is of a later version.", remedy="Use a newer release of paradraft.")
    return Card(
        target=_read_target(keys.inner("target")),
        revision=keys.text_or_none("revision"),
        method=keys.text("method", default=""),
        tap_layers=keys.wholes("tap_layers", low=-1),
        block_size=keys.whole("block_size", low=0, default=0),
        draft_vocab_size=keys.whole("draft_vocab_size", low=0, default=0),
        weights_sha256=keys.text_or_none("weights_sha256"),
        sources=tuple(_read_source(source) for source in keys.several("sources")),
        training=MappingProxyType(dict(keys.inner("training").content)),
        acceptance=MappingProxyType({name: keys.inner("acceptance").number(name) for name in keys.names("acceptance")}),
        licence=keys.text("licence", default=""),
    )


def check_fit(config: NetConfig, facts: TargetFacts) -> None:
    """Raise AlignmentError, with the first reason, if a network cannot work with a target of this shape."""
    for problem in _shape_problems(config, facts):
        raise AlignmentError(f"The drafter does not fit {facts.name}: {problem}.", remedy=_OTHER_TARGET)


def check_card(card: Card, config: NetConfig, facts: TargetFacts) -> tuple[str, ...]:
    """Check a drafter against the target it is to serve; return what is worth a word, such as an edited template.

    Raises AlignmentError with the reason: other dimensions, taps, vocabulary or tokenizer, or other weights that
    speak another chat template, and ModelError if card and configuration contradict each other.
    """
    _check_own(card, config)
    check_fit(config, facts)
    ours = card.target
    if _differ(ours.tokenizer_sha256, facts.tokenizer_sha256):
        raise _other(card, facts, "their tokenizers give ids other meanings")
    is_other = _differ(ours.sha256, facts.sha256)
    speaks_otherwise = ours.template_sha256 != facts.template_sha256
    if is_other and speaks_otherwise:
        raise _other(card, facts, "weights and chat template are others")
    notes = []
    if is_other:
        notes.append(f"The weights of {facts.name} are not the files this drafter was trained on ({ours.name}).")
    if speaks_otherwise:
        notes.append("The chat template is not the one this drafter was trained with, so fewer drafts may stand.")
    return tuple(notes)


def _shape_problems(config: NetConfig, facts: TargetFacts) -> Iterator[str]:
    if config.hidden_size != facts.hidden_size:
        yield f"it reads hidden states of {config.hidden_size} values, the target's have {facts.hidden_size}"
    if config.num_target_layers != facts.num_layers:
        yield f"it was made for {config.num_target_layers} layers, the target has {facts.num_layers}"
    if config.vocab_size != facts.vocab_size:
        yield f"its vocabulary has {config.vocab_size} ids, the target's has {facts.vocab_size}"
    outside = [layer for layer in config.tap_layers if not -1 <= layer < facts.num_layers]
    if outside:
        yield f"it taps layer {outside[0]}, the target's layers go from -1 (the embedding) to {facts.num_layers - 1}"


def _check_own(card: Card, config: NetConfig) -> None:
    """Compare what card and configuration both say. An empty entry says nothing."""
    pairs = {
        "method": (card.method, config.method),
        "tap_layers": (card.tap_layers, tuple(config.tap_layers)),
        "draft_vocab_size": (card.draft_vocab_size, config.draft_vocab_size),
    }
    for key, (said, found) in pairs.items():
        if said and said != found:
            raise ModelError(
                f"The drafter's card says {key}={said!r}, its configuration {found!r}.",
                remedy="Card and configuration are not of one drafter; get the folder again from its source.",
            )


def _differ(ours: str | None, theirs: str | None) -> bool:
    return ours is not None and theirs is not None and ours != theirs


def _other(card: Card, facts: TargetFacts, reason: str) -> AlignmentError:
    return AlignmentError(
        f"The drafter was trained for {card.target.name}, and the target is {facts.name}: {reason}.",
        remedy=_OTHER_TARGET,
    )


def _read_target(keys: Keys) -> TargetFacts:
    return TargetFacts(
        name=keys.text("name"),
        sha256=keys.text_or_none("sha256"),
        hidden_size=keys.whole("hidden_size", low=1),
        num_layers=keys.whole("num_layers", low=1),
        vocab_size=keys.whole("vocab_size", low=1),
        tokenizer_sha256=keys.text_or_none("tokenizer_sha256"),
        template_sha256=keys.text_or_none("template_sha256"),
    )


def _read_source(keys: Keys) -> TrainingSource:
    return TrainingSource(
        name=keys.text("name"), licence=keys.text("licence"), num_tokens=keys.whole("num_tokens", low=0)
    )
