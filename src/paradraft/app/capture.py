"""How an engine is set up that is captured while it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paradraft.app.config import Config
from paradraft.core.errors import ModelError
from paradraft.models.checkpoint import find_model, open_checkpoint
from paradraft.train.plan import check_taps, default_taps

_LARGEST_PAGE = 1024


def capture_config(config: Config, *, rows: int, longest: int) -> Config:
    """Return a configuration that decodes plainly, without shared prefixes and with few large pages for each row.

    A prefix taken from the cache is never fed, so it would have no taps.
    """
    page_size = min(longest, _LARGEST_PAGE)
    return replace(
        config,
        drafter="none",
        gamma=0,
        adaptive=False,
        prefix_caching=False,
        max_rows=rows,
        max_model_len=longest,
        page_size=page_size,
        kv_tokens=rows * -(-longest // page_size) * page_size,
    )


def tap_layers(config: Config, layers: Sequence[int] | None) -> tuple[int, ...]:
    """Return the layers to tap, checked against the target, which is opened and not loaded; None: the usual ones."""
    num_layers = open_checkpoint(find_model(config.model, revision=config.revision)).config.get("num_hidden_layers")
    if not isinstance(num_layers, int):
        raise ModelError(
            f"The configuration of {config.model} does not say how many layers it has.",
            remedy="Use a model whose config.json has num_hidden_layers.",
        )
    return default_taps(num_layers) if layers is None else check_taps(layers, num_layers)
