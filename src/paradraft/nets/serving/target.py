"""Joins a drafter folder that was read with the target that is loaded."""

from __future__ import annotations

import torch

from paradraft.models.device import DTYPES, choose_device
from paradraft.models.load import LoadedModel
from paradraft.models.stored import StoredTensor
from paradraft.models.tables import Tables, read_final_norm, read_tables
from paradraft.models.tensors import stored_of
from paradraft.native.runner import NativeRunner
from paradraft.nets.folder.files import LoadedNet
from paradraft.nets.networks.build import restore_net
from paradraft.nets.networks.medusa import MedusaNet
from paradraft.nets.networks.net import Net
from paradraft.nets.serving.choosing import NetRunning
from paradraft.nets.serving.native import NativeServed, serve_on_core
from paradraft.nets.serving.place import ServingPlace
from paradraft.nets.serving.serve import ServedNetwork, serve_net
from paradraft.nets.shapes import EMBEDDING, HEAD

FINAL_NORM = "norm.weight"


def serve_for(
    fitted: LoadedNet, target: LoadedModel, running: NetRunning, *, device: str
) -> ServedNetwork | NativeServed:
    """Return a network that was found to fit, run as was chosen for this target, with as large a cache.

    Raises ModelError for weights or tables that do not fit.
    """
    tables = _tables(fitted, target)
    net = restore_net(fitted.config, fitted.with_rows(tables).state, tables.embedding, tables.head)
    if isinstance(net, MedusaNet) and FINAL_NORM not in fitted.state:  # public checkpoints leave it to the target
        net.use_final_norm(read_final_norm(target.identity))
    if running.is_native and isinstance(target.target, NativeRunner):
        return serve_natively(net, target.target, dtype=running.dtype)
    limits = target.target.limits
    place = ServingPlace(
        dtype=DTYPES[running.dtype],
        device=choose_device(device),
        num_pages=limits.num_pages,
        page_size=limits.page_size,
    )
    return serve_net(net, place)


def serve_natively(net: Net, target: NativeRunner, *, dtype: str) -> NativeServed:
    """Return a net on the threads of its target; dtype: fp32, bf16, int8 or int4, of its weights."""
    return serve_on_core(net.config, _stored(net), target, dtype=dtype)


def _stored(net: Net) -> dict[str, StoredTensor]:
    tables = {EMBEDDING: net.embed_tokens.weight, HEAD: net.lm_head.weight}
    return {name: stored_of(tensor) for name, tensor in {**net.state_dict(), **tables}.items()}


def _tables(loaded: LoadedNet, target: LoadedModel) -> Tables:
    """Return the target's tables, or empty ones where the drafter brings both of its own."""
    if {EMBEDDING, HEAD} <= loaded.state.keys():
        return Tables(embedding=torch.empty(0), head=torch.empty(0))
    return read_tables(target.identity)
