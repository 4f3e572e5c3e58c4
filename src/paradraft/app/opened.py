"""Networks that draft, where the configuration names any; without one nothing here imports torch."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from paradraft.app.config import Config
from paradraft.core.ports import Needs
from paradraft.models.load import LoadedModel
from paradraft.nets.serving.choosing import choose_running
from paradraft.verify.rules import Rule

if TYPE_CHECKING:
    from paradraft.app.networks import Opened
    from paradraft.drafters.neural.drafter import NeuralDrafter

_FILE = "config.json"  # no drafter folder is without one


def open_networks(names: Iterable[str], config: Config) -> Opened:
    """Read the drafter folders among these drafters' names and return them.

    Raises ModelError for a folder that cannot be used, AlignmentError for taps that the target does not have.
    """
    candidates = [name for name in names if (Path(name).expanduser() / _FILE).is_file()]
    if not candidates:
        return {}
    from paradraft.app.networks import open_folders

    return open_folders(candidates, config)


def needs_of(opened: Opened) -> Needs:
    """Return what the target has to record for all of them together."""
    layers = {layer for net in opened.values() for layer in net.config.tap_layers}
    return Needs(sources=(), hidden_layers=tuple(sorted(layers)))


def fit_networks(opened: Opened, target: LoadedModel) -> tuple[Opened, tuple[str, ...]]:
    """Return the drafters as this target can use them, and what is worth a word to the user.

    Raises AlignmentError with the reason for one that was made for another target.
    """
    if not opened:
        return opened, ()
    from paradraft.app.networks import fit_folders

    return fit_folders(opened, target)


def runner_notes(opened: Opened, config: Config, target: LoadedModel) -> tuple[str, ...]:
    """Return what runs each network; raise ConfigError for a draft_dtype that cannot serve it."""
    running = [(net, choose_running(net.config, target.target, dtype=config.draft_dtype)) for net in opened.values()]
    return tuple(f"Network {net.config.method} on {each.runner}." for net, each in running)


def build_network_drafter(
    name: str, opened: Opened, config: Config, target: LoadedModel, rule: Rule, resources: ExitStack
) -> NeuralDrafter:
    """Return a drafter over a folder that fits the target; its memory is freed by `resources`.

    Raises ConfigError for a tree under a rule for chains and for a draft_dtype that cannot serve it, ModelError for
    weights that do not fit.
    """
    from paradraft.app.networks import serve_folder

    return serve_folder(opened[name], config, target, rule, resources)
