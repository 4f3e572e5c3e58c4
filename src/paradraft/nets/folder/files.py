"""Drafter folders: config.json, model.safetensors and card.json, in our layout or in one of the world's.

Reading checks everything before a network is built; writing makes a folder that appears only when it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from safetensors.torch import save_file
from torch import Tensor

from paradraft.core.errors import ModelError
from paradraft.hub.digests import combined_digest, compute_digest
from paradraft.models.folder.files import SAFETENSORS, find_weights
from paradraft.models.folder.weights import read_folder
from paradraft.models.new_folder import new_folder
from paradraft.models.tables import Tables
from paradraft.models.tensors import TensorMap
from paradraft.nets.config import NetConfig
from paradraft.nets.folder.borrowed import borrowed_shapes, with_rows, without_rows
from paradraft.nets.folder.card import CARD, Card, TargetFacts, check_card, check_fit, read_card, write_card
from paradraft.nets.folder.state import (
    check_state,
    converted,
    dtype_of,
    mask_in_embedding,
    with_members,
    without_copies,
)
from paradraft.nets.formats.extras import Extras, read_extras
from paradraft.nets.formats.fields import complete, without_defaults
from paradraft.nets.formats.keys import read_keys
from paradraft.nets.formats.layout import Labels, Layout, State
from paradraft.nets.formats.native import FROM_TARGET, NativeLayout
from paradraft.nets.formats.table import claiming_layout, find_layout, named_layout

CONFIG = "config.json"


class Weighted(Protocol):
    """A network, or a folder that was read."""

    @property
    def config(self) -> NetConfig:
        """Return what it is."""
        ...

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return its tensors by name."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LoadedNet:
    """A drafter folder, read and checked. says_depth: whether it says how many layers its target has.

    from_target: tensors that the folder leaves to its target; `with_rows` adds them.
    """

    config: NetConfig
    card: Card | None
    state: State
    layout: str
    path: Path
    sha256: str  # of the weights
    says_depth: bool
    from_target: frozenset[str] = frozenset()

    def state_dict(self) -> State:
        """Return the tensors, as a network does."""
        return self.state

    def with_rows(self, tables: Tables) -> LoadedNet:
        """Return the drafter with what it leaves to its target, whose tables these are."""
        whole = with_rows(self.state, self.config, self.from_target, tables)
        return replace(self, state=whole, from_target=frozenset())

    def for_target(self, facts: TargetFacts) -> tuple[LoadedNet, tuple[str, ...]]:
        """Return the drafter as this target can use it, and what is worth a word to the user.

        Raises AlignmentError with the reason if it does not fit, ModelError if the folder contradicts itself.
        """
        config = self.config if self.says_depth else replace(self.config, num_target_layers=facts.num_layers)
        if self.card is not None:
            notes = check_card(self.card, config, facts)
        else:
            check_fit(config, facts)
            notes = ("The drafter has no card, so only its dimensions and its vocabulary's size could be compared.",)
        config.check()
        return replace(self, config=config), notes


def is_drafter_folder(path: str | Path) -> bool:
    """Whether a path leads to a drafter folder, of whatever layout; False where there is none or no readable one."""
    file = Path(path).expanduser() / CONFIG
    try:
        return file.is_file() and claiming_layout(read_keys(file).content) is not None
    except ModelError:
        return False


def load_drafter_folder(path: str | Path, *, num_target_layers: int | None = None) -> LoadedNet:
    """Read a drafter folder; num_target_layers is used where the folder leaves it open, as some layouts do.

    Raises ModelError, with the value and the reason, for whatever is missing, damaged, not finite, contradictory or
    not supported.
    """
    folder = Path(path).expanduser()
    keys = read_keys(folder / CONFIG)
    layout = find_layout(keys)
    files = find_weights(folder)
    weights = TensorMap(read_folder(files))
    extras = read_extras(keys)
    said = {**layout.read(keys, frozenset(weights) - extras.copies), **extras.fields}
    config = complete(said, num_target_layers, origin=str(folder / CONFIG))
    config.check()
    raw = {name: weights[name] for name in weights}
    state = layout.own_names(without_copies(raw, config, extras), config)
    state = with_members(state, config, str(folder))
    from_target = frozenset(keys.texts(FROM_TARGET) if layout.name == NativeLayout.name else ())
    check_state(config, state, str(folder), borrowed_shapes(config, from_target, state, str(folder)))
    sha256 = combined_digest(files.paths)
    return LoadedNet(
        config=config,
        card=_read_card(folder, sha256),
        state=state,
        layout=layout.name,
        path=folder,
        sha256=sha256,
        says_depth="num_target_layers" in said,
        from_target=from_target,
    )


def save_drafter_folder(
    path: str | Path,
    net: Weighted,
    card: Card | None,
    *,
    layout: str = "native",
    dtype: str | None = None,
    tables: Tables | None = None,
    verifier: str | None = None,
    is_whole: bool = False,
) -> Path:
    """Write a network as a new folder and return the folder.

    dtype: fp32, bf16 or fp16, None for what the tensors are in. tables: the target's. Our own layout leaves out what
    is in them, if a card says whose they are; is_whole keeps it. Layouts of others need the embedding for a learned
    mask. verifier: what other engines are to load as the target, by default the target's name on the card. Raises
    ConfigError for a layout or type that is not known, ModelError for a network that the layout cannot hold, for
    tensors that do not fit, and for a folder that cannot be written.
    """
    kind = named_layout(layout)
    net.config.check()
    reason = kind.why_not(net.config)
    if reason is not None:
        raise ModelError(f"The layout {layout} cannot hold this drafter: {reason}.", remedy="Choose another layout.")
    state = converted(net.state_dict(), dtype)
    check_state(net.config, state, "The network")
    name = verifier or (card.target.name if card is not None else "")
    content = kind.write(net.config, Labels(target=name, dtype=dtype_of(state)))
    if kind.name == NativeLayout.name:
        may_borrow = not is_whole and card is not None and card.target.sha256 is not None
        content, public = _lean(content, state, net.config, tables if may_borrow else None)
    else:
        content, public = _public(content, state, net.config, kind, tables)
    target = Path(path).expanduser()
    with new_folder(target) as folder:
        _write(folder, net.config, content, public, card)
    return target


def _lean(
    content: dict[str, object], state: State, config: NetConfig, tables: Tables | None
) -> tuple[dict[str, object], State]:
    """Return a configuration file's content and the tensors of our own layout, without those that the tables have."""
    kept = state if tables is None else without_rows(state, config, tables)
    left_out = sorted(state.keys() - kept.keys())
    return {**content, **({FROM_TARGET: left_out} if left_out else {})}, kept


def _public(
    content: dict[str, object], state: State, config: NetConfig, layout: Layout, tables: Tables | None
) -> tuple[dict[str, object], State]:
    """Return a configuration file's content and the tensors as others call them."""
    public, extras = layout.public_names(state, config), Extras()
    if config.has_mask_embedding:
        public, extras = mask_in_embedding(public, config, None if tables is None else tables.embedding)
    return without_defaults(content, config, layout, frozenset(public) - extras.copies, extras), public


def _write(folder: Path, config: NetConfig, content: Mapping[str, object], public: State, card: Card | None) -> None:
    save_file(public, folder / SAFETENSORS, metadata={"format": "pt"})
    _write_json(folder / CONFIG, content)
    if card is not None:
        write_card(folder / CARD, _filled(card, config, compute_digest(folder / SAFETENSORS)))


def _read_card(folder: Path, sha256: str) -> Card | None:
    card = read_card(folder / CARD)
    if card is not None and card.weights_sha256 not in (None, sha256):
        raise ModelError(
            f"{folder / SAFETENSORS} is not the file that the card describes: its SHA-256 begins with {sha256[:12]}, "
            f"the card's with {str(card.weights_sha256)[:12]}.",
            remedy="The weights were replaced or damaged; get the folder again from its source.",
        )
    return card


def _filled(card: Card, config: NetConfig, sha256: str) -> Card:
    return replace(
        card,
        method=config.method,
        tap_layers=tuple(config.tap_layers),
        block_size=config.block_size,
        draft_vocab_size=config.draft_vocab_size,
        weights_sha256=sha256,
    )


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
