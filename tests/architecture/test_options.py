"""No option is dead: whatever can be configured or asked for is read somewhere."""

from __future__ import annotations

import ast
from dataclasses import fields

import pytest

from paradraft.app.config import Config
from paradraft.core.sampling import SamplingParams
from support.source_tree import modules

READER = {Config: "config", SamplingParams: "params"}  # what the record is called where it is read


def names_read(record: type) -> set[str]:
    """Return the fields that are read, outside the module in which the record checks itself."""
    return {
        node.attr
        for module in modules()
        if module.name != record.__module__
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).split(".")[-1] == READER[record]
    }


@pytest.mark.parametrize("record", [Config, SamplingParams])
def test_every_option_is_read(record: type) -> None:
    assert not {field.name for field in fields(record)} - names_read(record)
