"""What a public layout has no word for: kept under one key of its configuration file that other readers skip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType

from paradraft.nets.config import NetConfig
from paradraft.nets.formats.keys import Keys

KEY = "paradraft"
_FIELDS = {entry.name for entry in fields(NetConfig)} - {"method", "hidden_size", "vocab_size", "tap_layers"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Extras:
    """fields: of NetConfig. copies: tensors that are the target's. has_mask_row: the mask is a row of the embedding."""

    fields: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    copies: frozenset[str] = frozenset()
    has_mask_row: bool = False

    def written(self) -> dict[str, object]:
        """Return the entry for the file, empty if there is nothing to say."""
        parts = {"fields": dict(self.fields), "copies": sorted(self.copies), "has_mask_row": self.has_mask_row}
        return {KEY: {name: value for name, value in parts.items() if value}} if any(parts.values()) else {}


def read_extras(keys: Keys) -> Extras:
    """Return what a configuration file says beside its layout; raise ModelError for what cannot be."""
    own = keys.inner(KEY)
    said = dict(own.inner("fields").content)
    for name, value in said.items():
        if name not in _FIELDS or not isinstance(value, (bool, int, float, str)):
            raise own.refusal(name, value, "a field of a drafter")
    return Extras(
        fields=said, copies=frozenset(own.texts("copies")), has_mask_row=own.flag("has_mask_row", default=False)
    )
