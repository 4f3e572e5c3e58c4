from __future__ import annotations

from pathlib import Path

import pytest
import torch

from paradraft.core.errors import ConfigError
from paradraft.models import place
from paradraft.models.device import choose_device, choose_dtype, dtype_name
from paradraft.models.place import cpu_has_bf16, device_for


@pytest.mark.parametrize(
    ("flags", "expected"), [("avx2 avx512_bf16 fma", True), ("amx_bf16", True), ("avx512f avx512_vnni", False)]
)
def test_bf16_is_told_by_the_processors_flags(flags: str, expected: bool, tmp_path: Path) -> None:
    facts = tmp_path / "cpuinfo"
    facts.write_text(f"processor\t: 0\nflags\t\t: fpu {flags}\nprocessor\t: 1\n")
    assert cpu_has_bf16(facts) is expected


def test_where_the_system_does_not_say_there_is_no_bf16(tmp_path: Path) -> None:
    assert not cpu_has_bf16(tmp_path / "missing")


@pytest.mark.parametrize(("has_bf16", "expected"), [(True, torch.bfloat16), (False, torch.float32)])
def test_auto_takes_bf16_only_where_the_processor_computes_in_it(
    has_bf16: bool, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "cpu_has_bf16", lambda: has_bf16)
    assert choose_dtype("auto", torch.device("cpu")) == expected
    assert choose_dtype("auto", torch.device("cuda")) == torch.bfloat16
    assert choose_dtype("fp32", torch.device("cpu")) == torch.float32


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(ConfigError, match="device='cuda' is not available"):
        choose_device("cuda")


def test_torch_is_asked_for_a_gpu_only_where_a_driver_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(place, "torch_finds_gpu", lambda: not asked.append(True))
    monkeypatch.setattr(place, "may_have_gpu", lambda: False)
    assert (device_for("auto"), asked) == ("cpu", [])
    monkeypatch.setattr(place, "may_have_gpu", lambda: True)
    assert (device_for("auto"), asked) == ("cuda", [True])


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="device='tpu' is not known"):
        choose_device("tpu")
    with pytest.raises(ConfigError, match="dtype='int2' is not known"):
        choose_dtype("int2", torch.device("cpu"))


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16"])
def test_a_number_format_is_named_as_the_options_name_it(name: str) -> None:
    assert dtype_name(choose_dtype(name, torch.device("cpu"))) == name


def test_a_number_format_without_an_option_keeps_its_name() -> None:
    assert dtype_name(torch.float64) == "float64"
