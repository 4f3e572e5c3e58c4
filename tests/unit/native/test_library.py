"""Which file is taken for the native core, and what is said where none can be."""

import os
import shutil
from pathlib import Path

import pytest

from paradraft.core.errors import ConfigError, ModelError
from paradraft.native import library
from paradraft.native.library import INSTRUCTION_SET_VARIABLE, LIBRARY_VARIABLE, find_library, load_library
from support.native import needs_native


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two places for a library, the only ones that are looked at."""
    made = (tmp_path / "first.so", tmp_path / "second.so")
    monkeypatch.setattr(library, "_PLACES", made)
    monkeypatch.delenv(LIBRARY_VARIABLE, raising=False)
    return made


def test_the_core_is_built_wherever_there_is_a_compiler():
    """Else every test of the core would be skipped unnoticed."""
    if shutil.which("g++") is None:
        pytest.skip("no compiler here")
    assert find_library() is not None


@pytest.mark.parametrize("newer", [0, 1])
def test_the_newest_build_is_taken_wherever_it_lies(places: tuple[Path, Path], newer: int):
    for number, path in enumerate(places):
        path.touch()
        os.utime(path, ns=(0, 10**9 + (number == newer)))
    assert find_library() == places[newer]


def test_a_named_file_is_taken_before_all_others(
    places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    places[0].touch()
    monkeypatch.setenv(LIBRARY_VARIABLE, str(tmp_path / "absent.so"))
    assert find_library() is None
    (tmp_path / "absent.so").touch()
    assert find_library() == tmp_path / "absent.so"


def test_without_a_library_the_error_says_how_to_build_it(places: tuple[Path, Path]):
    with pytest.raises(ModelError, match="was not built") as caught:
        load_library()
    assert "cmake" in caught.value.remedy


def test_a_file_that_is_no_library_is_refused_by_its_name(places: tuple[Path, Path]):
    places[1].write_bytes(b"not a library")
    with pytest.raises(ModelError, match=r"second\.so cannot be loaded"):
        load_library()


@needs_native
def test_an_instruction_set_that_is_not_here_is_refused_with_those_that_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(INSTRUCTION_SET_VARIABLE, "avx9")
    with pytest.raises(ConfigError, match="'avx9' cannot run here") as caught:
        load_library().instruction_set()
    assert "portable" in caught.value.remedy
