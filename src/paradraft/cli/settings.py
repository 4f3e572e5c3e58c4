"""From the command line to records: defaults, then the file, then --set, then the options by name."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paradraft.app.config import Config, configure, read_config
from paradraft.core.errors import ConfigError
from paradraft.core.sampling import SamplingParams

if TYPE_CHECKING:
    from paradraft.train.units import Share

_CONFIG_KEYS = frozenset(field.name for field in fields(Config))
_SAMPLING_KEYS = frozenset(field.name for field in fields(SamplingParams)) - _CONFIG_KEYS


def build_config(file: Path | None, settings: Sequence[str] | None, **given: object) -> Config:
    """Return the configuration; options that were not given are None and change nothing.

    Raises ConfigError for keys that are not known, and for those of a request's sampling: who takes them leaves them
    to build_sampling, and gives what without_sampling leaves here.
    """
    base = Config() if file is None else read_config(file)
    values = parse_settings(settings)
    for key in values:
        _check_key(key)
    named = {key: value for key, value in given.items() if value is not None}
    return configure({**values, **named}, base)


def without_sampling(settings: Sequence[str] | None) -> list[str]:
    """Return the settings that are not a request's sampling parameters."""
    return [setting for setting in settings or () if _parse(setting)[0] not in _SAMPLING_KEYS]


def build_sampling(settings: Sequence[str] | None, **given: object) -> SamplingParams:
    """Return the sampling parameters: those named by --set, then the options by name."""
    values = {key: value for key, value in parse_settings(settings).items() if key in _SAMPLING_KEYS}
    biases = values.get("logit_bias")
    if isinstance(biases, Mapping):  # keys of a TOML table are texts
        values["logit_bias"] = {int(key) if key.isdecimal() else key: bias for key, bias in biases.items()}
    return SamplingParams(**{**given, **values})


def parse_settings(settings: Sequence[str] | None) -> Mapping[str, Any]:
    """Return `key=value` texts as a mapping; values are TOML, and anything that is not TOML is a text."""
    return dict(map(_parse, settings or ()))


def parse_integers(text: str, option: str) -> tuple[int, ...]:
    """Return `1,4,8` or `1-8` as whole numbers of at least 1; raise ConfigError naming the option."""
    numbers: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdigit() or (dash and not high.isdigit()) or int(low) < 1 or (dash and int(high) < int(low)):
            raise ConfigError(f"{option} {text!r} is not a list of numbers.", remedy="Write it like 1,4,8 or 1-8.")
        numbers += range(int(low), int(high or low) + 1)
    return tuple(dict.fromkeys(numbers))


def parse_names(text: str, option: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return a list of names separated by commas; raise ConfigError for an unknown one."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ConfigError(f"{option} {text!r} is not known.", remedy=f"Choose from {', '.join(known)}.")
    return names


def parse_share(text: str) -> Share:
    """Return `0/2` as the first of two shares of the work; raise ConfigError for anything else."""
    from paradraft.train.units import Share

    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal()):
        raise ConfigError(f"--part {text!r} is not a share.", remedy="Write it like 0/2: the first of two.")
    return Share(int(part), int(parts))


def _check_key(key: str) -> None:
    if key in _SAMPLING_KEYS:
        raise ConfigError(
            f"--set {key} says how one request is sampled, and this command does not take it so.",
            remedy="Use the command's own option, such as --temperature, if --help names one.",
        )
    known = sorted(_CONFIG_KEYS | _SAMPLING_KEYS)
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known keys: {', '.join(known)}."
        raise ConfigError(f"--set {key} is not known.", remedy=hint)


def _parse(setting: str) -> tuple[str, Any]:
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {setting!r} has no value.", remedy="Write it as --set key=value.")
    return key.strip(), _value(text.strip())


def _value(text: str) -> Any:  # whatever TOML can hold
    words = {"none": None, "None": None, "True": True, "False": False}
    if text in words:
        return words[text]
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return tuple(value) if isinstance(value, list) else value
