"""Our own layout: every field by its name, every tensor as the network calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields

from paradraft.core.errors import ModelError
from paradraft.nets.config import NetConfig
from paradraft.nets.formats.keys import Keys
from paradraft.nets.formats.layout import Fields, Labels, State

FORMAT = "paradraft-drafter"
VERSION = 1
FROM_TARGET = "from_target"  # names of tensors that the file leaves to the target


class NativeLayout:
    """Holds every network this version knows."""

    name = "native"
    readers = "paradraft"

    def claims(self, config: Mapping[str, object]) -> bool:
        """Whether the file says that it is ours."""
        return config.get("format") == FORMAT

    def read(self, keys: Keys, names: frozenset[str]) -> Fields:  # noqa: ARG002 - the file says everything
        """Return all fields. Their values are checked by the configuration itself."""
        if keys.whole("version", low=1) > VERSION:
            raise ModelError(f"{keys.path} is of a later version.", remedy="Use a newer release of paradraft.")
        known = {field.name for field in fields(NetConfig)}
        said = {name: value for name, value in keys.content.items() if name not in ("format", "version", FROM_TARGET)}
        unknown = sorted(said.keys() - known)
        if unknown:
            raise ModelError(
                f"{keys.path}: {unknown[0]} is not known.", remedy="Use a newer release of paradraft, or export anew."
            )
        return {**said, "tap_layers": keys.wholes("tap_layers", low=-1)}

    def own_names(self, state: State, config: NetConfig) -> State:  # noqa: ARG002 - the port
        """Return the state as it is."""
        return state

    def why_not(self, config: NetConfig) -> str | None:  # noqa: ARG002 - the port
        """Return None: everything can be written."""
        return None

    def write(self, config: NetConfig, labels: Labels) -> dict[str, object]:  # noqa: ARG002 - the port
        """Return all fields."""
        return {"format": FORMAT, "version": VERSION, **asdict(config)}

    def public_names(self, state: State, config: NetConfig) -> State:  # noqa: ARG002 - the port
        """Return the state as it is."""
        return state
