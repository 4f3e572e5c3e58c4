"""Drafter folders: opened before the target, so that it records what they tap, and served once it is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack

from paradraft.app.config import Config
from paradraft.core.errors import AlignmentError, ConfigError
from paradraft.drafters.neural.drafter import NeuralDrafter
from paradraft.drafters.neural.options import NeuralOptions
from paradraft.kv.pages import PageCache
from paradraft.models.checkpoint import find_model, open_checkpoint
from paradraft.models.load import LoadedModel
from paradraft.nets.folder.facts import facts_of
from paradraft.nets.folder.files import LoadedNet, is_drafter_folder, load_drafter_folder
from paradraft.nets.serving.choosing import choose_running
from paradraft.nets.serving.target import serve_for
from paradraft.verify.rules import Rule
from paradraft.verify.tree import Shape

Opened = Mapping[str, LoadedNet]  # by the name that the configuration calls it


def open_folders(names: Iterable[str], config: Config) -> Opened:
    """Read the drafter folders among these drafters' names and return them.

    Raises ModelError for a folder that cannot be used, AlignmentError for taps that the target does not have.
    """
    folders = [name for name in names if is_drafter_folder(name)]
    num_layers = _num_layers(config) if folders else None
    opened = {name: load_drafter_folder(name, num_target_layers=num_layers) for name in folders}
    for name, loaded in opened.items():
        _require_taps(loaded, name, config.model, num_layers)
    return opened


def fit_folders(opened: Opened, target: LoadedModel) -> tuple[Opened, tuple[str, ...]]:
    """Return the drafters as this target can use them, and what is worth a word to the user.

    Raises AlignmentError with the reason for one that was made for another target.
    """
    facts = facts_of(target)
    fitted = {name: net.for_target(facts) for name, net in opened.items()}
    notes = [note for _, each in fitted.values() for note in each]
    return {name: net for name, (net, _) in fitted.items()}, tuple(dict.fromkeys(notes))


def serve_folder(
    fitted: LoadedNet, config: Config, target: LoadedModel, rule: Rule, resources: ExitStack
) -> NeuralDrafter:
    """Return a drafter over a folder that fits the target; its memory is freed by `resources`.

    Raises ConfigError for a tree under a rule for chains and for a draft_dtype that cannot serve it, ModelError for
    weights that do not fit.
    """
    if config.draft_width > 1 and (rule.shape is not Shape.TREE or rule.reads_draft_laws):
        raise ConfigError(
            f"draft_width={config.draft_width} makes trees, and under the rule {rule.name!r} a network drafts chains.",
            remedy="Set draft_width to 1, or use the rule coupled.",
        )
    running = choose_running(fitted.config, target.target, dtype=config.draft_dtype)
    network = serve_for(fitted, target, running, device=config.device)
    resources.callback(network.close)
    limits = target.target.limits
    pages = PageCache(num_pages=limits.num_pages, page_size=limits.page_size)
    options = NeuralOptions(
        width=config.draft_width, is_sampled=rule.reads_draft_laws, is_coupled=config.rule == "coupled"
    )
    return NeuralDrafter(network, pages, options=options)


def _num_layers(config: Config) -> int | None:
    value = open_checkpoint(find_model(config.model, revision=config.revision)).config.get("num_hidden_layers")
    return value if isinstance(value, int) else None


def _require_taps(loaded: LoadedNet, name: str, model: str, num_layers: int | None) -> None:
    outside = [layer for layer in loaded.config.tap_layers if num_layers is not None and layer >= num_layers]
    if outside:
        raise AlignmentError(
            f"The drafter {name} taps layer {outside[0]}, and {model} has layers 0 to {(num_layers or 0) - 1}.",
            remedy="Use the drafter with the target it was made for.",
        )
