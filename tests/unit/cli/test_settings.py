"""From the command line to records."""

from __future__ import annotations

import pytest

from paradraft.cli.settings import (
    build_config,
    build_sampling,
    parse_integers,
    parse_names,
    parse_settings,
    without_sampling,
)
from paradraft.core.errors import ConfigError


def test_the_command_line_wins_over_set_and_set_over_the_file(tmp_path):
    file = tmp_path / "options.toml"
    file.write_text('drafter = "ngram"\ngamma = 2\nmax_rows = 3\n')
    config = build_config(file, ["gamma=4", "max_rows=5"], gamma=6, drafter=None)
    assert (config.drafter, config.gamma, config.max_rows) == ("ngram", 6, 5)


def test_an_unknown_key_names_the_nearest_known_one():
    with pytest.raises(ConfigError, match=r"Did you mean gamma\?"):
        build_config(None, ["gama=4"])
    with pytest.raises(ConfigError, match=r"Did you mean max_tokens\?"):
        build_config(None, ["max_tokns=4"])


def test_a_bias_can_be_given_although_toml_keys_are_texts():
    assert build_sampling(["logit_bias={5 = -1.5, 70 = 2}"]).logit_bias == {5: -1.5, 70: 2}
    with pytest.raises(ConfigError, match="logit_bias"):
        build_sampling(["logit_bias={a = 1}"])


def test_sampling_parameters_are_told_from_options():
    assert build_config(None, without_sampling(["top_p=0.5", "gamma=3"])).gamma == 3


def test_a_sampling_parameter_is_refused_where_it_would_be_ignored():
    with pytest.raises(ConfigError, match="--set temperature says how one request is sampled"):
        build_config(None, ["temperature=1", "gamma=3"])
    assert build_sampling(["top_p=0.5", "gamma=3"], temperature=0.0).top_p == 0.5


@pytest.mark.parametrize(
    ("setting", "sources"),
    [
        ("draft_from=suffix", ("suffix",)),
        ('draft_from=["suffix", "table"]', ("suffix", "table")),
        ("draft_from=none", ()),
        ("draft_from=auto", ("auto",)),
    ],
)
def test_the_sources_that_draft_can_be_named(setting, sources):
    assert build_sampling([setting]).draft_from == sources


def test_a_sampling_value_out_of_range_is_refused_by_name():
    with pytest.raises(ConfigError, match="top_p"):
        build_sampling(["top_p=2.0"])


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("x=3", 3),
        ("x=0.5", 0.5),
        ("x=true", True),
        ("x=none", None),
        ("x=word", "word"),
        ('x="3"', "3"),
        ("x=[2, 1]", (2, 1)),
        ("x=a=b", "a=b"),
        ("x=owner/name@main", "owner/name@main"),
    ],
)
def test_values_are_toml_and_anything_else_is_text(setting, value):
    assert parse_settings([setting]) == {"x": value}


@pytest.mark.parametrize("setting", ["gamma", "=3"])
def test_a_setting_without_key_or_value_is_refused(setting):
    with pytest.raises(ConfigError, match="--set"):
        parse_settings([setting])


@pytest.mark.parametrize(("text", "numbers"), [("1,4,8", (1, 4, 8)), ("1-3", (1, 2, 3)), ("2,1-2", (2, 1))])
def test_lists_of_numbers(text, numbers):
    assert parse_integers(text, "--gammas") == numbers


@pytest.mark.parametrize("text", ["", "0", "a", "3-1", "1,,2", "-1"])
def test_other_lists_are_refused_by_the_name_of_the_option(text):
    with pytest.raises(ConfigError, match="--gammas"):
        parse_integers(text, "--gammas")


def test_unknown_names_are_refused_with_the_choices():
    assert parse_names("plain, fixed,plain", "--arms", ("plain", "fixed")) == ("plain", "fixed")
    with pytest.raises(ConfigError, match="Choose from plain, fixed"):
        parse_names("plain,magic", "--arms", ("plain", "fixed"))
