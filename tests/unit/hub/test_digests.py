from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from paradraft.hub import digests
from paradraft.hub.digests import combined_digest, compute_digest, file_digest


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARADRAFT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    seen: list[Path] = []

    def counted(path: Path, *, start: int = 0) -> str:
        seen.append(path)
        return compute_digest(path, start=start)

    monkeypatch.setattr(digests, "compute_digest", counted)
    return seen


def test_an_unchanged_file_is_read_once(tmp_path: Path, reads: list[Path]) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"abc")
    expected = hashlib.sha256(b"abc").hexdigest()
    assert [file_digest(file), file_digest(file)] == [expected, expected]
    assert len(reads) == 1


def test_a_file_of_the_same_size_changed_later_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"abc")
    file_digest(file)
    file.write_bytes(b"abd")
    os.utime(file, ns=(1, 1))
    assert file_digest(file) == hashlib.sha256(b"abd").hexdigest()


@pytest.mark.parametrize("content", ["not json", "[]", '{"x": 1}'])
def test_a_damaged_memory_is_forgotten(tmp_path: Path, content: str) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "digests.json").write_text(content)
    file = tmp_path / "weights"
    file.write_bytes(b"abc")
    assert file_digest(file) == hashlib.sha256(b"abc").hexdigest()


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in the way")
    file = tmp_path / "weights"
    file.write_bytes(b"abc")
    assert file_digest(file) == hashlib.sha256(b"abc").hexdigest()


def test_the_digest_of_several_files_depends_on_names_and_contents_but_not_on_order(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"1")
    second.write_bytes(b"2")
    together = combined_digest([first, second])
    assert together == combined_digest([second, first])
    assert together != combined_digest([first])
    assert combined_digest([first]) == file_digest(first)


def test_a_digest_may_leave_out_the_beginning_of_a_file(tmp_path: Path, reads: list[Path]) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"abc")
    for start, rest in ((0, b"abc"), (1, b"bc"), (3, b"")):
        expected = hashlib.sha256(rest).hexdigest()
        assert [file_digest(file, start=start), file_digest(file, start=start)] == [expected, expected]
    assert len(reads) == 3
