"""Writing drafter folders, in our layout or in one of the world's: a folder appears only when it is complete."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from safetensors.torch import save_file
from torch import Tensor

from paradraft.core.errors import ConfigError, ModelError
from paradraft.hub.digests import compute_digest
from paradraft.models.device import DTYPES
from paradraft.models.folder.files import SAFETENSORS
from paradraft.models.new_folder import new_folder
from paradraft.models.tables import Tables
from paradraft.models.tensors import stored_of, tensor_of
from paradraft.nets.config import NetConfig
from paradraft.nets.folder.borrowed import without_rows
from paradraft.nets.folder.card import CARD, Card, write_card
from paradraft.nets.folder.files import CONFIG
from paradraft.nets.folder.state import check_finite, check_state, dtype_of, mask_in_embedding
from paradraft.nets.formats.extras import Extras
from paradraft.nets.formats.fields import without_defaults
from paradraft.nets.formats.layout import Labels, Layout, State
from paradraft.nets.formats.native import FROM_TARGET, NativeLayout
from paradraft.nets.formats.table import named_layout


class Weighted(Protocol):
    """A network, or a folder that was read."""

    @property
    def config(self) -> NetConfig:
        """Return what it is."""
        ...

    def state_dict(self) -> Mapping[str, Tensor]:
        """Return its tensors by name."""
        ...


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
    check_finite(state, "The network")
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


def converted(state: Mapping[str, Tensor], dtype: str | None) -> State:
    """Return contiguous copies: files with shared memory are refused."""
    if dtype is not None and dtype not in DTYPES:
        raise ConfigError(f"dtype={dtype!r} is not known.", remedy=f"Choose one of {', '.join(DTYPES)}.")
    kinds = {True: None if dtype is None else DTYPES[dtype], False: None}
    return {
        name: stored_of(tensor.detach().to("cpu", kinds[tensor.is_floating_point()], copy=True))
        for name, tensor in state.items()
    }


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
    save_file(
        {name: tensor_of(tensor) for name, tensor in public.items()}, folder / SAFETENSORS, metadata={"format": "pt"}
    )
    _write_json(folder / CONFIG, content)
    if card is not None:
        write_card(folder / CARD, _filled(card, config, compute_digest(folder / SAFETENSORS)))


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
