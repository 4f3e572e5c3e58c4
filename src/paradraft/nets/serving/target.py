"""Joins a drafter folder that was read with the target that is loaded: here it is decided what runs the network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paradraft.models.load import LoadedModel
from paradraft.models.tables import Tables, read_tables
from paradraft.native.runner import NativeRunner
from paradraft.nets.folder.files import LoadedNet
from paradraft.nets.serving.choosing import NetRunning
from paradraft.nets.serving.native import NativeServed, serve_on_core
from paradraft.nets.shapes import EMBEDDING, HEAD

if TYPE_CHECKING:
    from paradraft.nets.serving.serve import ServedNetwork


def serve_for(
    fitted: LoadedNet, target: LoadedModel, running: NetRunning, *, device: str
) -> ServedNetwork | NativeServed:
    """Return a network that was found to fit, run as was chosen for this target, with as large a cache.

    Raises ModelError for weights or tables that do not fit.
    """
    tables = _tables(fitted, target)
    whole = fitted if tables is None else fitted.with_rows(tables)
    if running.is_native and isinstance(target.target, NativeRunner):
        return serve_on_core(whole.config, whole.stored, tables, target.target, dtype=running.dtype)
    from paradraft.nets.serving.on_torch import serve_on_torch  # the native path does without torch

    return serve_on_torch(whole, tables, target, running, device=device)


def _tables(fitted: LoadedNet, target: LoadedModel) -> Tables | None:
    """Return the target's tables, None where the drafter brings both of its own."""
    return None if {EMBEDDING, HEAD} <= fitted.stored.keys() else read_tables(target.identity)
