from __future__ import annotations

from pathlib import Path

import pytest

from paradraft.app.config import Config, configure, read_config
from paradraft.core.errors import ConfigError


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match="Did you mean drafter"):
        configure({"draftr": "ngram"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gamma", 65),
        ("gamma", "4"),
        ("dtype", "int3"),
        ("device", "tpu"),
        ("page_size", 0),
        ("max_rows", True),
        ("adaptive", "maybe"),
        ("prefix_caching", 1),
        ("model", {"name": "x"}),
        ("model", ""),
        ("drafter", None),
        ("revision", 3),
        ("alpha", "x"),
        ("alpha", 2),
        ("draft_temperature", float("nan")),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=key):
        configure({key: value})


def test_values_override_the_base() -> None:
    base = configure({"gamma": 3, "drafter": "ngram"})
    assert configure({"gamma": 5}, base) == Config(gamma=5, drafter="ngram")


def test_a_file_is_read_and_its_errors_name_it(tmp_path: Path) -> None:
    file = tmp_path / "paradraft.toml"
    file.write_text('model = "m"\ngamma = 2\n')
    assert read_config(file) == Config(model="m", gamma=2)
    file.write_text("gamma = = 2")
    with pytest.raises(ConfigError, match=r"paradraft\.toml"):
        read_config(file)
    with pytest.raises(ConfigError, match=r"missing\.toml"):
        read_config(tmp_path / "missing.toml")
