"""Which runner serves a model, and the reasons that users read."""

from __future__ import annotations

from pathlib import Path

import pytest

from paradraft.core.errors import ConfigError
from paradraft.models import choosing
from paradraft.models.choosing import why_not_native
from paradraft.models.tiny import tiny_config
from paradraft.native.library import LIBRARY_VARIABLE


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "load_library", lambda: None)


def choose(runner: str, *, dtype: str = "bf16", device: str = "cpu", **changes: object) -> str | None:
    return why_not_native(runner, tiny_config("llama", changes), name="tiny", dtype=dtype, device=device)


@pytest.mark.parametrize("dtype", ["bf16", "fp32", "int8", "int4"])
@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3", "smollm3"])
def test_every_family_of_the_decoder_can_run_on_the_native_core(family: str, dtype: str) -> None:
    assert why_not_native("native", tiny_config(family), name="tiny", dtype=dtype, device="cpu") is None


@pytest.mark.parametrize("runner", ["auto", "native"])
def test_the_native_core_is_taken_where_it_can_serve(runner: str) -> None:
    assert choose(runner) is None


@pytest.mark.parametrize(
    ("changes", "reason"), [({"dtype": "fp16"}, "dtype is fp16"), ({"hidden_act": "gelu"}, "hidden_act is 'gelu'")]
)
def test_auto_takes_torch_elsewhere_and_says_why(changes: dict[str, str], reason: str) -> None:
    assert reason in str(choose("auto", **changes))


def test_auto_takes_torch_where_the_library_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setenv(LIBRARY_VARIABLE, str(tmp_path / "absent.so"))
    assert choose("auto") == "The native decode core, libparadraft_native.so, was not built"


def test_torch_is_taken_where_it_is_asked_for() -> None:
    assert choose("torch") == "runner is torch"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"device": "cuda"}, "device is cuda"),
        ({"dtype": "fp16"}, "computes in fp32, bf16, int8, int4, and dtype is fp16"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu', not silu"),
        ({"model_type": "mixtral"}, "model_type 'mixtral' is not one of"),
    ],
)
def test_a_forced_runner_that_cannot_serve_is_an_error_with_the_reason(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        choose("native", **changes)
    assert "runner='native' cannot serve tiny" in caught.value.problem
    assert "torch" in caught.value.remedy


@pytest.mark.parametrize(
    ("runner", "changes", "reason"),
    [
        ("auto", {"device": "cuda"}, "device is cuda"),
        ("torch", {}, "runner is torch"),
        ("auto", {"hidden_act": "x"}, "x"),
    ],
)
def test_a_dtype_of_the_native_core_alone_is_an_error_elsewhere(
    runner: str, changes: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigError, match=f"only the native core computes in it: .*{reason}") as caught:
        choose(runner, dtype="int8", **changes)
    assert "bf16" in caught.value.remedy


def test_a_library_that_is_not_there_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setenv(LIBRARY_VARIABLE, str(tmp_path / "absent.so"))
    with pytest.raises(ConfigError, match="was not built"):
        choose("native")


def test_a_file_that_is_no_library_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    (tmp_path / "empty.so").write_bytes(b"")
    monkeypatch.setenv(LIBRARY_VARIABLE, str(tmp_path / "empty.so"))
    with pytest.raises(ConfigError, match=r"empty.so cannot be loaded"):
        choose("native")


def test_unknown_runners_are_refused() -> None:
    with pytest.raises(ConfigError, match="runner='gpu' is not known"):
        choose("gpu")
