"""The drafter whose weights a fit begins with: another fit's folder, or a drafter folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from torch import Tensor

from paradraft.core.errors import AlignmentError, ModelError
from paradraft.nets.config import NetConfig
from paradraft.nets.folder.borrowed import require_lender
from paradraft.nets.folder.facts import facts_of_files
from paradraft.nets.folder.files import is_drafter_folder, load_drafter_folder
from paradraft.train.fitted import net_of
from paradraft.train.run_folder import ORIGIN, read_checkpoint
from paradraft.train.target import TargetTables

_NO_WEIGHTS = frozenset({"max_positions"})  # says nothing about what the weights mean
_CORRECTION = ("markov_head.", "confidence_head.")
_KEY_HEADS = ("k_proj.weight", "v_proj.weight")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Origin:
    """A network to begin with. record: what the card of what comes of it says about it."""

    config: NetConfig
    state: Mapping[str, Tensor]  # fp32, for taps as the target makes them
    record: Mapping[str, object]

    def widened(self, num_key_heads: int) -> Origin:
        """Return the same network with more key heads: each is repeated for the query heads that shared it.

        What it computes stays; a fit then lets the copies part. Fewer heads, or no multiple, change nothing.
        """
        times, rest = divmod(num_key_heads, self.config.num_key_heads)
        if times <= 1 or rest:
            return self
        state = {
            name: _repeated(tensor, times, self.config.head_dim) if name.endswith(_KEY_HEADS) else tensor
            for name, tensor in self.state.items()
        }
        return replace(self, config=replace(self.config, num_key_heads=num_key_heads), state=state)

    def without_correction(self) -> Origin:
        """Return the same block network without its heads for correction and confidence: a DFlash out of a DSpark."""
        if self.config.method != "dspark":
            return self
        config = replace(self.config, method="dflash", markov_rank=0, has_confidence=False)
        state = {name: tensor for name, tensor in self.state.items() if not name.startswith(_CORRECTION)}
        return replace(self, config=config, state=state)

    def require_same(self, config: NetConfig, folder: Path) -> None:
        """Raise AlignmentError, by name and values, if a network of this configuration cannot begin with it."""
        for field in fields(config):
            own, wanted = getattr(self.config, field.name), getattr(config, field.name)
            if own != wanted and field.name not in _NO_WEIGHTS:
                raise AlignmentError(
                    f"{folder} has {field.name}={own!r}, and this fit {field.name}={wanted!r}.",
                    remedy="Give this fit the method and sizes of what it begins with, or leave out --begin-from.",
                )


def open_origin(folder: Path, target: TargetTables) -> Origin:
    """Return the drafter in a folder.

    Raises ModelError if it holds neither a fit nor a drafter or is damaged, AlignmentError for a drafter of another
    target.
    """
    checkpoint = read_checkpoint(folder)
    if checkpoint is not None:
        before = json.loads(checkpoint.facts.get(ORIGIN, "null"))
        record = {"name": folder.name, "steps": checkpoint.step, **({"begun_from": before} if before else {})}
        net = net_of(checkpoint)
        return Origin(config=net.config, state=net.state, record=record)
    if not is_drafter_folder(folder):
        raise ModelError(
            f"{folder} holds neither a fit nor a drafter to begin from.",
            remedy="Name a folder that `train fit` or `train export` wrote.",
        )
    return _open_drafter(folder, target)


def _repeated(rows: Tensor, times: int, head_dim: int) -> Tensor:
    """Return [N * times * D, d] of heads [N * D, d], copies side by side."""
    heads = rows.view(-1, head_dim, rows.shape[1])
    return heads.repeat_interleave(times, dim=0).flatten(0, 1)


def _open_drafter(folder: Path, target: TargetTables) -> Origin:
    facts = facts_of_files(target.checkpoint)
    loaded, _ = load_drafter_folder(folder, num_target_layers=target.config.num_layers).for_target(facts)
    if loaded.from_target:
        require_lender(loaded.card, facts)
    record: dict[str, object] = {"name": folder.resolve().name, "weights_sha256": loaded.sha256}
    if loaded.card is not None:
        record["sources"] = [asdict(source) for source in loaded.card.sources]
        before = loaded.card.training.get("begun_from")
        record |= {"begun_from": before} if before else {}
    state = {
        name: tensor.float() if tensor.is_floating_point() else tensor
        for name, tensor in loaded.with_rows(target.tables).state.items()
    }
    return Origin(config=loaded.config, state=state, record=record)
