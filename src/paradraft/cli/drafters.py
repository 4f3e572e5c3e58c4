"""`paradraft drafters`: what a drafter folder is, whether it fits a target, and the folder in another layout."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paradraft.cli import options
from paradraft.cli.examples import shown
from paradraft.core.errors import ConfigError

if TYPE_CHECKING:
    from paradraft.models.checkpoint import Checkpoint
    from paradraft.models.tables import Tables
    from paradraft.nets.folder.card import Card, TargetFacts
    from paradraft.nets.folder.files import LoadedNet

drafters = typer.Typer(
    help="Show, check and convert trained drafters.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=shown("paradraft drafters show ./drafter", "paradraft drafters export ./drafter ./out --layout speculators"),
)
_Folder = Annotated[Path, typer.Argument(help="A drafter folder, in any layout that is read.")]
_Target = Annotated[
    str | None, typer.Option("--target", help="Built-in name, model folder, GGUF file, or hub id of the target.")
]
_NUM_SHOWN = 12


@drafters.command(epilog=shown("paradraft drafters show ./drafter", "paradraft drafters show ./drafter --json"))
def show(folder: _Folder, as_json: options.AsJson = False) -> None:
    """Print what a drafter is, for which target it was trained, on what, and what it reached."""
    loaded = _load(folder, None)
    if as_json:
        print(json.dumps(_facts(loaded), ensure_ascii=False))
        return
    for name, value in _lines(loaded):
        print(f"{name:<{_NUM_SHOWN}}{value}")


@drafters.command(epilog=shown("paradraft drafters check ./drafter --target smollm2-135m"))
def check(folder: _Folder, target: _Target = None) -> None:
    """Check a drafter folder, and whether it fits a target.

    Damaged, incomplete and foreign folders end with exit status 2 and the reason, as do drafters of another target.
    """
    from paradraft.models.tables import tables_of

    if target is None:
        loaded = _load(folder, None)
        lacks = f" but for {_names(loaded)}, which its target has" if loaded.from_target else ""
        print(f"{folder} is a whole {loaded.config.method} drafter{lacks}. Name a --target to see whether it fits.")
        return
    checkpoint, facts = _open(target)
    loaded, notes = _load(folder, facts.num_layers).for_target(facts)
    if loaded.from_target:
        loaded.with_rows(tables_of(checkpoint))
    for note in notes:
        print(f"Note: {note}")
    print(f"{folder} fits {target}.")


@drafters.command(
    epilog=shown(
        "paradraft drafters export ./drafter ./out --layout speculators --target smollm2-135m",
        "paradraft drafters export ./foreign ./ours --dtype bf16",
    )
)
def export(
    folder: _Folder,
    out: Annotated[Path, typer.Argument(help="The folder to make.")],
    layout: Annotated[
        str, typer.Option(help="native, speculators, eagle, zlab, deepspec or medusa; see docs/formats.md.")
    ] = "native",
    target: _Target = None,
    verifier: Annotated[str | None, typer.Option(help="What other engines are to load as the target.")] = None,
    dtype: Annotated[str | None, typer.Option(help="fp32, bf16 or fp16; by default what the tensors are in.")] = None,
    whole: options.Whole = False,
) -> None:
    """Write a drafter in another layout, card included, with every number and layer id converted.

    With --target our own layout leaves to the target what its tables hold, and gets back what was left to it.
    """
    from paradraft.nets.folder.saving import save_drafter_folder

    if target is None:
        loaded, tables = _load(folder, None), None
        _require_rows(loaded)
    else:
        loaded, tables = _with_target(folder, target)
    made = save_drafter_folder(
        out, loaded, loaded.card, layout=layout, dtype=dtype, tables=tables, verifier=verifier, is_whole=whole
    )
    print(made)


def _with_target(folder: Path, target: str) -> tuple[LoadedNet, Tables]:
    """Return a drafter with all its rows, and the tables of a target that has them."""
    from paradraft.models.tables import tables_of
    from paradraft.nets.folder.borrowed import require_lender

    checkpoint, facts = _open(target)
    loaded = _load(folder, facts.num_layers).for_target(facts)[0]
    if loaded.from_target:
        require_lender(loaded.card, facts)
    tables = tables_of(checkpoint)
    return loaded.with_rows(tables), tables


def _require_rows(loaded: LoadedNet) -> None:
    if loaded.from_target:
        name = "its target" if loaded.card is None else loaded.card.target.name
        raise ConfigError(f"{loaded.path} leaves {_names(loaded)} to {name}.", remedy="Name the target with --target.")


def _names(loaded: LoadedNet) -> str:
    return ", ".join(sorted(loaded.from_target))


def _load(folder: Path, num_target_layers: int | None) -> LoadedNet:
    from paradraft.nets.folder.files import load_drafter_folder

    if not folder.expanduser().is_dir():
        raise ConfigError(f"{folder} is no folder.", remedy="Name a drafter folder.")
    return load_drafter_folder(folder, num_target_layers=num_target_layers)


def _open(target: str) -> tuple[Checkpoint, TargetFacts]:
    from paradraft.cli.opening import bring_asset
    from paradraft.hub.assets import ASSETS
    from paradraft.nets.folder.facts import open_target

    if target in ASSETS:
        bring_asset(target)
    return open_target(target)


def _facts(loaded: LoadedNet) -> dict[str, object]:
    from paradraft.nets.folder.card import plain_card

    return {
        "layout": loaded.layout,
        "config": asdict(loaded.config),
        "parameters": _num_parameters(loaded),
        "from_target": sorted(loaded.from_target),
        "sha256": loaded.sha256,
        "card": None if loaded.card is None else plain_card(loaded.card),
    }


def _lines(loaded: LoadedNet) -> list[tuple[str, str]]:
    config = loaded.config
    depth = str(config.num_target_layers) if loaded.says_depth else "an unsaid number of"
    vocabulary = f"{config.draft_vocab_size} of {config.vocab_size} tokens"
    lines = [
        ("method", f"{config.method}, {config.block_size} drafts per round, {config.num_layers} layers"),
        ("layout", loaded.layout),
        ("weights", f"{_num_parameters(loaded) / 1e6:.1f}M numbers, SHA-256 {loaded.sha256}"),
        ("taps", f"outputs of layers {', '.join(map(str, config.tap_layers))} of {depth} layers"),
        ("vocabulary", vocabulary),
    ]
    if loaded.from_target:
        lines.append(("from target", _names(loaded)))
    return lines + (_card_lines(loaded.card) if loaded.card is not None else [("card", "none")])


def _card_lines(card: Card) -> list[tuple[str, str]]:
    target = card.target
    lines = [
        (
            "target",
            f"{target.name}{f'@{card.revision}' if card.revision else ''}, SHA-256 {target.sha256 or 'unknown'}",
        ),
        ("licence", card.licence or "not said"),
    ]
    lines += [
        ("trained on", f"{source.name} ({source.licence}), {source.num_tokens} tokens") for source in card.sources
    ]
    return lines + [("measured", f"{name}: {value:g}") for name, value in card.acceptance.items()]


def _num_parameters(loaded: LoadedNet) -> int:
    return sum(tensor.values.size for tensor in loaded.stored.values() if tensor.is_floating_point)
