"""The page of user scenarios names tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from support.source_tree import ROOT

PAGE = ROOT / "docs" / "user-scenarios.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROW = re.compile(r"^\| (?!---|What users hit)(.+) \| (.+) \|$", re.MULTILINE)


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_scenario_is_protected_by_tests_that_exist() -> None:
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) > 60
    for scenario, protection in rows:
        named = TEST.findall(protection)
        assert named, scenario
        for file, name in named:
            assert name in names_in(ROOT / file), f"{scenario}: {file}::{name}"


def test_every_test_named_on_the_page_stands_in_a_row() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(TEST.findall(text)) == sum(len(TEST.findall(row)) for _, row in ROW.findall(text))
