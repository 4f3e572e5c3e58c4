"""All layouts, and finding the one that a folder is in."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from paradraft.core.errors import ConfigError, ModelError
from paradraft.nets.formats.block import DeepSpecLayout, ZLabLayout
from paradraft.nets.formats.eagle import EagleLayout
from paradraft.nets.formats.keys import Keys
from paradraft.nets.formats.layout import Layout
from paradraft.nets.formats.medusa import MedusaLayout
from paradraft.nets.formats.native import NativeLayout
from paradraft.nets.formats.speculators import SpeculatorsLayout

# The order matters to nobody: a file is claimed by one layout at most.
_ALL: tuple[Layout, ...] = (
    NativeLayout(),
    SpeculatorsLayout(),
    EagleLayout(),
    ZLabLayout(),
    DeepSpecLayout(),
    MedusaLayout(),
)
LAYOUTS: Mapping[str, Layout] = MappingProxyType({layout.name: layout for layout in _ALL})


def named_layout(name: str) -> Layout:
    """Return a layout by its name; raise ConfigError if there is none."""
    if name not in LAYOUTS:
        raise ConfigError(f"layout={name!r} is not known.", remedy=f"Choose one of {', '.join(LAYOUTS)}.")
    return LAYOUTS[name]


def claiming_layout(config: Mapping[str, object]) -> Layout | None:
    """Return the layout of a configuration file's content, None if it is no drafter's."""
    return next((layout for layout in LAYOUTS.values() if layout.claims(config)), None)


def find_layout(keys: Keys) -> Layout:
    """Return the layout of a configuration file; raise ModelError if it is no drafter's."""
    layout = claiming_layout(keys.content)
    if layout is None:
        raise ModelError(
            f"{keys.path} describes no drafter that can be read (architectures={keys.content.get('architectures')!r}).",
            remedy="Known are EAGLE-3, P-EAGLE, DFlash, DSpark and Medusa in their public layouts, and our own.",
        )
    return layout
