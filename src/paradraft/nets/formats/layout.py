"""What a layout has to say for itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from paradraft.core.errors import ModelError
from paradraft.models.stored import StoredTensor
from paradraft.nets.config import NetConfig
from paradraft.nets.formats.keys import Keys

Fields = dict[str, object]  # of NetConfig, by name
State = dict[str, StoredTensor]  # as files hold it: reading a folder does without torch


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """What a configuration file says beside the network: the target's name, and the type of the weights."""

    target: str
    dtype: str


class Layout(Protocol):
    """One way to write a drafter into config.json and model.safetensors.

    Inside the house everything has the names of nets/shapes.py and numbers taps by the outputs of layers from 0.
    """

    name: str
    readers: str  # who reads it, for people

    def claims(self, config: Mapping[str, object]) -> bool:
        """Whether a configuration file is of this layout."""
        ...

    def read(self, keys: Keys, names: frozenset[str]) -> Fields:
        """Return the fields that the file says; names: its tensors.

        Raises ModelError for a value that cannot be right and for a variant that the networks here do not compute.
        """
        ...

    def own_names(self, state: State, config: NetConfig) -> State:
        """Return a file's tensors under our names."""
        ...

    def why_not(self, config: NetConfig) -> str | None:
        """Return why a network cannot be written this way, None if it can."""
        ...

    def write(self, config: NetConfig, labels: Labels) -> dict[str, object]:
        """Return the configuration file's content."""
        ...

    def public_names(self, state: State, config: NetConfig) -> State:
        """Return our tensors under the layout's names."""
        ...


def refuse_variants(keys: Keys, plain: Mapping[str, tuple[object, ...]]) -> None:
    """Raise ModelError if a key has another value than the plain ones; an absent key is plain."""
    for key, values in plain.items():
        value = keys.content.get(key)
        if value is not None and value not in values:
            raise ModelError(
                f"{keys.path}: a drafter with {key}={value!r} is not supported, its drafts would be others.",
                remedy="Use a drafter without it.",
            )


def renamed(state: State, changes: Mapping[str, str]) -> State:
    """Return the tensors with each name that begins with a key of changes beginning with its value instead."""
    return {_renamed(name, changes): tensor for name, tensor in state.items()}


def _renamed(name: str, changes: Mapping[str, str]) -> str:
    for old, new in changes.items():
        if name.startswith(old):
            return new + name[len(old) :]
    return name
