"""Commands on a fake engine."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner, Result

from paradraft.cli import opening
from paradraft.cli.main import app
from support.fake_llm import FakeLLM


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[FakeLLM]:
    """The engines that a command opens."""
    engines: list[FakeLLM] = []

    def load(config, custom=None):
        engines.append(FakeLLM(config, custom))
        return engines[-1]

    monkeypatch.setattr(opening, "_load", load)
    monkeypatch.setattr(opening, "bring_asset", lambda name: name)
    return engines


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch):
    """Run a command line and return its result."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(app, list(arguments), input=text)

    return call
