"""The Python in the documents runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paradraft.drafters.guard import GuardedDrafter
from paradraft.hub.assets import is_cached
from support.engines import answer, build_engine

ROOT = Path(__file__).parents[2]


def block(name: str) -> str:
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    return code


def test_the_drafter_of_the_guide_changes_no_answer_and_breaks_no_rule_of_the_port() -> None:
    namespace: dict[str, object] = {}
    exec(compile(block("docs/adding-a-drafter.md"), "adding-a-drafter.md", "exec"), namespace)
    guarded = GuardedDrafter(namespace["EchoDrafter"](), vocab_size=64)  # type: ignore[operator]
    for prompt in ([3, 1, 4, 1, 5], [9, 9]):
        assert answer(build_engine(guarded), prompt) == answer(build_engine(), prompt)
    assert not guarded.failures


@pytest.mark.real_model
@pytest.mark.skipif(not is_cached("smollm2-135m"), reason="not in the cache; make setup brings it")
def test_the_python_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block("README.md"), "README.md", "exec"), {})
    assert len(capsys.readouterr().out) > 100
