"""Joins a drafter folder that was read with the target that is loaded."""

from __future__ import annotations

import torch

from paradraft.models.device import choose_device, choose_dtype
from paradraft.models.load import LoadedModel
from paradraft.models.tables import Tables, read_final_norm, read_tables
from paradraft.nets.folder.files import LoadedNet
from paradraft.nets.networks.build import restore_net
from paradraft.nets.networks.medusa import MedusaNet
from paradraft.nets.serving.place import ServingPlace
from paradraft.nets.serving.serve import ServedNetwork, serve_net
from paradraft.nets.shapes import EMBEDDING, HEAD

FINAL_NORM = "norm.weight"


def serve_for(fitted: LoadedNet, target: LoadedModel, *, device: str) -> ServedNetwork:
    """Return a network that was found to fit, in the target's number format and with as large a cache.

    Raises ModelError for weights or tables that do not fit.
    """
    tables = _tables(fitted, target)
    net = restore_net(fitted.config, fitted.with_rows(tables).state, tables.embedding, tables.head)
    if isinstance(net, MedusaNet) and FINAL_NORM not in fitted.state:  # public checkpoints leave it to the target
        net.use_final_norm(read_final_norm(target.identity))
    limits, where = target.target.limits, choose_device(device)
    place = ServingPlace(
        dtype=choose_dtype(limits.dtype, where), device=where, num_pages=limits.num_pages, page_size=limits.page_size
    )
    return serve_net(net, place)


def _tables(loaded: LoadedNet, target: LoadedModel) -> Tables:
    """Return the target's tables, or empty ones where the drafter brings both of its own."""
    if {EMBEDDING, HEAD} <= loaded.state.keys():
        return Tables(embedding=torch.empty(0), head=torch.empty(0))
    return read_tables(target.identity)
