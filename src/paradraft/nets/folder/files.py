"""Reading drafter folders: config.json, model.safetensors and card.json, in our layout or in one of the world's.

Everything is checked before a network is built, and none of it needs torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from paradraft.core.errors import ModelError
from paradraft.hub.digests import combined_digest
from paradraft.models.folder.files import SAFETENSORS, find_weights
from paradraft.models.folder.weights import read_folder
from paradraft.models.tables import Tables
from paradraft.nets.config import NetConfig
from paradraft.nets.folder.borrowed import NetTensors, WholeState, borrowed_shapes, with_rows
from paradraft.nets.folder.card import CARD, Card, TargetFacts, check_card, check_fit, read_card
from paradraft.nets.folder.state import check_state, with_members, without_copies
from paradraft.nets.formats.extras import read_extras
from paradraft.nets.formats.fields import complete
from paradraft.nets.formats.keys import read_keys
from paradraft.nets.formats.layout import State
from paradraft.nets.formats.native import FROM_TARGET, NativeLayout
from paradraft.nets.formats.table import claiming_layout, find_layout
from paradraft.nets.shapes import EMBEDDING

if TYPE_CHECKING:
    from torch import Tensor

CONFIG = "config.json"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LoadedNet:
    """A drafter folder, read and checked. says_depth: whether it says how many layers its target has.

    from_target: tensors that the folder leaves to its target; `with_rows` adds them.
    """

    config: NetConfig
    card: Card | None
    stored: State
    layout: str
    path: Path
    sha256: str  # of the weights
    says_depth: bool
    from_target: frozenset[str] = frozenset()

    @property
    def state(self) -> dict[str, Tensor]:
        """Return the tensors as tensors of torch, which share the stored values."""
        from paradraft.models.tensors import tensor_of  # reading a folder does not need torch

        return {name: tensor_of(tensor) for name, tensor in self.stored.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """Return the tensors, as a network does."""
        return self.state

    def tensors(self, tables: Tables | None) -> NetTensors:
        """Return what is packed for the native core; tables: the target's, None if the drafter has both of its own.

        Raises ModelError for tables of another target.
        """
        embedding = self.stored[EMBEDDING] if tables is None or EMBEDDING in self.stored else tables.embedding
        return NetTensors(state=WholeState(self.stored, self.config, self.from_target, tables), embedding=embedding)

    def with_rows(self, tables: Tables) -> LoadedNet:
        """Return the drafter with what it leaves to its target, whose tables these are."""
        whole = with_rows(self.stored, self.config, self.from_target, tables)
        return replace(self, stored=whole, from_target=frozenset())

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
    weights = read_folder(files)
    extras = read_extras(keys)
    said = {**layout.read(keys, frozenset(weights) - extras.copies), **extras.fields}
    config = complete(said, num_target_layers, origin=str(folder / CONFIG))
    config.check()
    raw = {name: weights[name] for name in weights}  # finite, or the map refuses them
    state = layout.own_names(without_copies(raw, config, extras), config)
    state = with_members(state, config, str(folder))
    from_target = frozenset(keys.texts(FROM_TARGET) if layout.name == NativeLayout.name else ())
    check_state(config, state, str(folder), borrowed_shapes(config, from_target, state, str(folder)))
    sha256 = combined_digest(files.paths)
    return LoadedNet(
        config=config,
        card=_read_card(folder, sha256),
        stored=state,
        layout=layout.name,
        path=folder,
        sha256=sha256,
        says_depth="num_target_layers" in said,
        from_target=from_target,
    )


def _read_card(folder: Path, sha256: str) -> Card | None:
    card = read_card(folder / CARD)
    if card is not None and card.weights_sha256 not in (None, sha256):
        raise ModelError(
            f"{folder / SAFETENSORS} is not the file that the card describes: its SHA-256 begins with {sha256[:12]}, "
            f"the card's with {str(card.weights_sha256)[:12]}.",
            remedy="The weights were replaced or damaged; get the folder again from its source.",
        )
    return card
