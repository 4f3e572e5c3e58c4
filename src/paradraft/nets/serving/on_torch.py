"""Builds a network that was read as a module of torch and puts it where it serves."""

from __future__ import annotations

import torch
from torch import Tensor

from paradraft.models.device import DTYPES, choose_device
from paradraft.models.load import LoadedModel
from paradraft.models.stored import EVERY
from paradraft.models.tables import Tables, read_final_norm
from paradraft.models.tensors import tensor_of
from paradraft.nets.folder.files import LoadedNet
from paradraft.nets.networks.build import restore_net
from paradraft.nets.networks.medusa import MedusaNet
from paradraft.nets.serving.choosing import NetRunning
from paradraft.nets.serving.place import ServingPlace
from paradraft.nets.serving.serve import ServedNetwork, serve_net
from paradraft.nets.shapes import FINAL_NORM


def serve_on_torch(
    whole: LoadedNet, tables: Tables | None, target: LoadedModel, running: NetRunning, *, device: str
) -> ServedNetwork:
    """Return the network with as large a cache as its target's; tables: the target's, None if it has both of its own.

    Raises ModelError for weights or tables that do not fit.
    """
    net = restore_net(whole.config, whole.state, *_tensors(tables))
    if isinstance(net, MedusaNet) and FINAL_NORM not in whole.stored:  # public checkpoints leave it to the target
        net.use_final_norm(tensor_of(read_final_norm(target.identity)))
    limits = target.target.limits
    place = ServingPlace(
        dtype=DTYPES[running.dtype],
        device=choose_device(device),
        num_pages=limits.num_pages,
        page_size=limits.page_size,
    )
    return serve_net(net, place)


def _tensors(tables: Tables | None) -> tuple[Tensor, Tensor]:
    """Return embedding and head, empty where none are needed."""
    if tables is None:
        return torch.empty(0), torch.empty(0)
    embedding = tensor_of(tables.embedding.rows(EVERY))
    return embedding, embedding if tables.head is tables.embedding else tensor_of(tables.head.rows(EVERY))
