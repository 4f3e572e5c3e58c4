"""Opening engines with a word on what is going on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from paradraft.app.config import Config
from paradraft.cli.progress import downloading, waiting
from paradraft.hub.assets import ASSETS, bring, is_cached
from paradraft.hub.prompts import Prompt, read_prompts

if TYPE_CHECKING:
    from paradraft.app.llm import LLM
    from paradraft.core.ports import Drafter
    from paradraft.lab.ports import Speaker


def bring_asset(name: str) -> Path:
    """Return the path of a built-in asset, showing a bar while it is downloaded."""
    if is_cached(name):
        return bring(name)
    with downloading(f"Downloading {name}") as report:
        return bring(name, report)


@contextmanager
def open_llm(config: Config, custom: Drafter | None = None) -> Iterator[LLM]:
    """Yield an engine and close it in the end; the built-in model is brought first if it is not there.

    custom: a drafter that takes the place of the configured one.
    """
    with load_llm(config, custom) as llm:
        yield llm


def load_llm(config: Config, custom: Drafter | None = None) -> LLM:
    """Return an engine that the caller closes; as open_llm."""
    for name in (config.model, config.drafter):
        if name in ASSETS:
            bring_asset(name)
    with waiting(f"Loading {config.model}"):
        return _load(config) if custom is None else _load(config, custom)


def _load(config: Config, custom: Drafter | None = None) -> LLM:
    from paradraft.app.llm import LLM  # torch comes with it

    return LLM(config=config, custom=custom)


def export_folder(model: str, folder: Path, *, dtype: str) -> Path:
    """Write a model as a safetensors folder and return the folder."""
    if model in ASSETS:
        bring_asset(model)
    with waiting(f"Writing {folder}"):
        from paradraft.models.checkpoint import find_model, open_checkpoint
        from paradraft.models.export import export_model
        from paradraft.models.tokenizer import load_tokenizer

        source = find_model(model)
        return export_model(open_checkpoint(source), load_tokenizer(source.path), folder, dtype=dtype).folder


def read_tasks(source: str) -> list[Prompt]:
    """Return the prompts of a file or of a built-in set, which is brought first."""
    if source in ASSETS:
        bring_asset(source)
    return read_prompts(source)


@contextmanager
def weights_for_all(model: str, *, with_peer: bool) -> Iterator[str]:
    """Yield the model as all arms can load it: with a peer a folder, written for the time being if need be.

    It is written in fp32, which holds every smaller dtype exactly, so all arms start from the same numbers.
    """
    if not with_peer or (Path(model).expanduser() / "config.json").is_file():
        yield model
        return
    with TemporaryDirectory(prefix="paradraft-") as folder:
        yield str(export_folder(model, Path(folder) / Path(model).stem, dtype="fp32"))


def open_peer(model: str, dtype: str) -> Speaker:
    """Load the weights of a folder into transformers alone."""
    from paradraft.lab.peer import TransformersPeer

    with waiting("Loading transformers"):
        return TransformersPeer(Path(model).expanduser(), dtype=dtype)
