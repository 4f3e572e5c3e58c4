"""Joins a drafter folder that was read with the target that is loaded: here it is decided what runs the network."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from paradraft.models.load import LoadedModel
from paradraft.models.packed_cache import PackedOrigin
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
    if running.is_native and isinstance(target.target, NativeRunner):
        origin = _origin(fitted, target)
        tensors = fitted.tensors(tables)
        return serve_on_core(fitted.config, tensors, target.target, dtype=running.dtype, origin=origin)
    from paradraft.nets.serving.on_torch import serve_on_torch  # the native path does without torch

    whole = fitted if tables is None else fitted.with_rows(tables)
    return serve_on_torch(whole, tables, target, running, device=device)


def _origin(fitted: LoadedNet, target: LoadedModel) -> PackedOrigin:
    """Return what packed weights of the network depend on: its file, and that of the target which lends its head."""
    lender = "" if HEAD in fitted.stored else target.identity.sha256
    digest = hashlib.sha256(f"{fitted.sha256} {lender}".encode("ascii")).hexdigest()
    return PackedOrigin(name=fitted.path.resolve().name, sha256=digest)


def _tables(fitted: LoadedNet, target: LoadedModel) -> Tables | None:
    """Return the target's tables, None where the drafter brings both of its own."""
    return None if {EMBEDDING, HEAD} <= fitted.stored.keys() else read_tables(target.identity)
