"""The Python in the documents runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paradraft import LLM
from paradraft.drafters.guard import GuardedDrafter
from paradraft.hub.assets import is_cached
from support.engines import answer, build_engine
from support.serving import served_model_of

ROOT = Path(__file__).parents[2]


def blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)


def block(name: str) -> str:
    [code] = blocks(name)
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
    exec(compile(blocks("README.md")[0], "README.md", "exec"), {})
    assert len(capsys.readouterr().out) > 100


@pytest.mark.real_model
@pytest.mark.skipif(not is_cached("smollm2-135m"), reason="not in the cache; make setup brings it")
@pytest.mark.parametrize(("name", "index"), [("README.md", 1), ("docs/serving.md", 0)])
def test_the_clients_of_the_documents_are_answered(capsys: pytest.CaptureFixture[str], name: str, index: int) -> None:
    code = blocks(name)[index]
    with LLM("smollm2-135m", kv_tokens=2048) as llm, served_model_of(llm) as server:
        exec(compile(code.replace("http://127.0.0.1:8000", server.url), name, "exec"), namespace := {})
        namespace["client"].close()
    assert "Paris" in capsys.readouterr().out
