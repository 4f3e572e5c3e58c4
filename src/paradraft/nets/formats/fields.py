"""From what a file says to a whole configuration, and back to what must be said beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from types import MappingProxyType
from typing import Any

from paradraft.core.errors import ModelError
from paradraft.nets.config import NetConfig
from paradraft.nets.formats.extras import Extras
from paradraft.nets.formats.keys import Keys
from paradraft.nets.formats.layout import Layout

# For fields that a layout does not know. Medusa heads have no attention; a chain drafter knows no block.
DEFAULTS: Mapping[str, object] = MappingProxyType(
    {
        "intermediate_size": 1,
        "num_layers": 0,
        "num_heads": 1,
        "num_key_heads": 1,
        "head_dim": 2,
        "norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "max_positions": 2048,
        "block_size": 5,
        "mask_token_id": 0,
    }
)
_BEHIND_LAST_TAP = 4  # the EAGLE convention taps the output of layer L - 4 last


def complete(said: Mapping[str, object], num_target_layers: int | None, *, origin: str) -> NetConfig:
    """Return the configuration; raise ModelError if the file leaves open what cannot be guessed."""
    known = {**DEFAULTS, **said}
    known.setdefault("draft_vocab_size", known.get("vocab_size"))
    depth = known.get("num_target_layers", num_target_layers)
    if known.get("tap_layers") is None:
        known["tap_layers"] = _usual_taps(str(known.get("method")), depth, origin)
    if depth is None:
        depth = max(_whole_taps(known["tap_layers"]), default=0) + _BEHIND_LAST_TAP
    known["num_target_layers"] = depth
    missing = [entry.name for entry in fields(NetConfig) if entry.name not in known and entry.name in _REQUIRED]
    if missing:
        raise ModelError(f"{origin}: {missing[0]} is missing.", remedy="Get the folder again from its source.")
    parts: Any = known  # the values are checked by NetConfig.check
    return NetConfig(**parts)


def without_defaults(
    content: dict[str, object], config: NetConfig, layout: Layout, names: frozenset[str], extras: Extras
) -> dict[str, object]:
    """Return a file's content with what its layout could not say, found by reading it again."""
    said = layout.read(Keys(content, "the new config.json"), names)
    guessed = asdict(complete(said, config.num_target_layers, origin="The new config.json"))
    lost = {name: value for name, value in asdict(config).items() if guessed[name] != value}
    if "num_target_layers" not in said:
        lost["num_target_layers"] = config.num_target_layers
    return {**content, **Extras(fields=lost, copies=extras.copies, has_mask_row=extras.has_mask_row).written()}


_REQUIRED = frozenset(
    {"method", "hidden_size", "vocab_size", "draft_vocab_size", "tap_layers", "num_target_layers", *DEFAULTS}
)


def _usual_taps(method: str, depth: object, origin: str) -> tuple[int, ...]:
    """Return the taps of a folder that names none: layers 2, L / 2 and L - 3 as they are entered, or the last one."""
    if not isinstance(depth, int):
        raise ModelError(
            f"{origin} does not say which layers the drafter taps, nor how many the target has.",
            remedy="Name the target too.",
        )
    return (depth - 1,) if method == "medusa" else (1, depth // 2 - 1, depth - _BEHIND_LAST_TAP)


def _whole_taps(taps: object) -> list[int]:
    return [tap for tap in taps if isinstance(tap, int)] if isinstance(taps, tuple) else []
