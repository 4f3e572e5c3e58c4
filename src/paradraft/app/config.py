"""Every option of the product in one frozen record; unknown keys are errors that name the nearest known one."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from paradraft.core.errors import ConfigError

DTYPES = ("auto", "fp32", "bf16", "fp16", "int8", "int4")
DEVICES = ("auto", "cpu", "cuda")
RUNNERS = ("auto", "native", "torch")
VOCABULARIES = ("same", "mapped")
AUTO, MERGED, NETWORK, NOTHING = "auto", "merged", "network", "none"
MAX_DEPTH, MAX_WIDTH = 64, 16  # of a draft tree


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """How an engine is put together.

    model: built-in name, safetensors or .bin folder, GGUF file, or hub id (`owner/name@revision`).
    drafter: auto (merged, with what ships for the model), none, ngram, suffix, recent, table, merged, ladder,
    early-exit, a folder with a drafting network, or a model (same forms as model) used as a draft model.
    draft_sources: what merged and ladder draw on: ngram, suffix, recent, table, network and folders with networks.
    draft_table: file of counted continuations; auto: what ships for the model, none: an empty one.
    draft_network: folder of the source network; auto: what ships for the model, if anything does; none: left out.
    draft_learned_contexts: bound on what finished answers add to the table while serving, 0: nothing.
    rule: coupled (default), greedy, rejection, block, recursive; lossy and so marked: ratio, typical.
    gamma: most draft tokens per step on one path. adaptive: shorten drafts where measured costs say so;
    schedule_verification: then also leave out drafted nodes whose confidence does not pay for them.
    draft_calibration: JSON file of temperatures by depth that confidence starts from; None: learned while serving.
    draft_vocabulary: same (checked at start), or mapped: a draft model with another tokenizer, by token strings.
    draft_branching: children per node by level for a draft model's tree, () for a chain.
    draft_width: most children per node that a network drafts, 1 for a chain.
    draft_nodes: most nodes of a network's draft, None: gamma.
    draft_selector: file of a network that finds uncertain positions, where a tree of up to 12 nodes is drafted, or
    entropy (untrained); draft_threshold: nats above which a position is uncertain, None: the selector's own.
    draft_dtype: of a drafting network's weights; auto: int8 on the native core, fp32 beside a target in fp32, and
    else the target's.
    draft_layers: how many of the target's own first layers draft with early-exit.
    runner: native (the decode core of the house), torch, or auto, which takes native where it can serve the model.
    draft_price: what a drafted node has to be worth while adaptive is off, in plain passes; 0 drafts whole blocks.
    draft_temperature, draft_eos_temperature: of a draft model and of its end tokens; None: the request's own.
    """

    model: str = "smollm2-135m"
    revision: str | None = None
    drafter: str = AUTO
    draft_revision: str | None = None
    draft_vocabulary: str = "same"
    draft_branching: tuple[int, ...] = ()
    draft_sources: tuple[str, ...] = ("suffix", "recent", "table", NETWORK)
    draft_table: str = AUTO
    draft_network: str = NOTHING
    draft_learned_contexts: int = 200_000
    draft_dtype: str = AUTO
    draft_width: int = 1
    draft_nodes: int | None = None
    draft_layers: int = 4
    draft_selector: str | None = None
    draft_threshold: float | None = None
    draft_calibration: str | None = None
    draft_price: float = 0.05
    draft_temperature: float | None = None
    draft_eos_temperature: float | None = None
    rule: str = "coupled"
    alpha: float = 0.6
    gamma: int = 7
    adaptive: bool = True
    schedule_verification: bool = True
    dtype: str = "auto"
    device: str = "auto"
    runner: str = "auto"
    threads: int | None = None
    max_rows: int = 8
    max_model_len: int | None = None
    max_step_tokens: int = 512
    page_size: int = 16
    kv_tokens: int = 16384
    prefix_caching: bool = True
    suffix_shared_tokens: int = 1_000_000
    seed: int | None = None

    def __post_init__(self) -> None:
        """Check types and ranges; names of models and drafters are checked where they are resolved."""
        _check_types(self)
        _check_choice("dtype", self.dtype, DTYPES)
        _check_choice("draft_dtype", self.draft_dtype, DTYPES)
        _check_choice("device", self.device, DEVICES)
        _check_choice("runner", self.runner, RUNNERS)
        _check_choice("draft_vocabulary", self.draft_vocabulary, VOCABULARIES)
        for name in ("draft_temperature", "draft_eos_temperature", "draft_threshold"):
            _check_number(name, getattr(self, name), 100.0, is_optional=True)
        _check_number("alpha", self.alpha, 1.0)
        _check_number("draft_price", self.draft_price, 1.0)
        object.__setattr__(self, "draft_branching", _as_branching(self.draft_branching))
        object.__setattr__(self, "draft_sources", _as_sources(self.draft_sources))
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise ConfigError(
                    f"{name}={value!r} is not allowed.", remedy=f"Use a whole number from {low} to {high}."
                )


_RANGES = (
    ("gamma", 0, 64),
    ("draft_learned_contexts", 0, 2**31 - 1),
    ("draft_width", 1, MAX_WIDTH),
    ("draft_nodes", 1, 1024),
    ("draft_layers", 1, 1024),
    ("threads", 1, 1024),
    ("max_rows", 1, 1024),
    ("max_model_len", 2, 2**24),
    ("max_step_tokens", 1, 2**20),
    ("page_size", 1, 1024),
    ("kv_tokens", 2, 2**31 - 1),
    ("suffix_shared_tokens", 0, 2**31 - 1),
    ("seed", 0, 2**64 - 1),
)
_OPTIONAL = frozenset({"draft_nodes", "threads", "max_model_len", "seed"})
_OPTIONAL_TEXTS = ("revision", "draft_revision", "draft_selector", "draft_calibration")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name}={value!r} is not known.", remedy=f"Choose one of {', '.join(choices)}.")


def _check_types(config: Config) -> None:
    for name in ("model", "drafter", "draft_table", "draft_network", "rule", *_OPTIONAL_TEXTS):
        value = getattr(config, name)
        if not (isinstance(value, str) and value) and not (value is None and name in _OPTIONAL_TEXTS):
            raise ConfigError(f"{name}={value!r} is not allowed.", remedy="Use a text that is not empty.")
    for name in ("adaptive", "schedule_verification", "prefix_caching"):
        if not isinstance(getattr(config, name), bool):
            raise ConfigError(f"{name}={getattr(config, name)!r} is not allowed.", remedy="Use true or false.")


def _check_number(name: str, value: object, most: float, *, is_optional: bool = False) -> None:
    if value is None and is_optional:
        return
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0.0 <= value <= most:
        hint = ", or leave it out" if is_optional else ""
        raise ConfigError(f"{name}={value!r} is not allowed.", remedy=f"Use a number from 0 to {most:g}{hint}.")


def _as_branching(value: object) -> tuple[int, ...]:
    widths = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if len(widths) > MAX_DEPTH or not all(type(width) is int and 1 <= width <= MAX_WIDTH for width in widths):
        raise ConfigError(
            f"draft_branching={value!r} is not allowed.",
            remedy=f"Use up to {MAX_DEPTH} whole numbers from 1 to {MAX_WIDTH}, one per level, like [3, 2, 1].",
        )
    return widths


def _as_sources(value: object) -> tuple[str, ...]:
    names = tuple(value) if isinstance(value, (list, tuple)) else ()
    if not names or len(set(names)) < len(names) or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(
            f"draft_sources={value!r} is not allowed.",
            remedy='Use a list of different names, like ["suffix", "recent", "table"].',
        )
    return names


def _check_key(key: str) -> None:
    known = [field.name for field in fields(Config)]
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known keys: {', '.join(known)}."
        raise ConfigError(f"Unknown configuration key {key!r}.", remedy=hint)


def configure(values: Mapping[str, Any], base: Config | None = None) -> Config:
    """Return base (or the defaults) with these values; raise ConfigError for an unknown key or a bad value."""
    for key in values:
        _check_key(key)
    return replace(base or Config(), **values)


def read_config(path: Path) -> Config:
    """Return the configuration in a TOML file; raise ConfigError if it cannot be read or has unknown keys."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path}: cannot be read as TOML ({error}).", remedy="Check the path and the syntax."
        ) from error
    return configure(values)
