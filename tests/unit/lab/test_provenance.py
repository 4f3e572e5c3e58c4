"""Where a figure comes from."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from paradraft.core.errors import ConfigError
from paradraft.lab import provenance
from paradraft.lab.files import write_whole
from paradraft.lab.provenance import commit_of, gather, source_digest


def test_provenance_names_versions_machine_and_the_command_as_it_can_be_typed():
    source = gather(command=["paradraft", "bench", "--json", "my file"], model={}, dtype="fp32", settings={})
    assert source.command == "paradraft bench --json 'my file'"
    assert source.versions["torch"] != "absent"
    assert source.machine["cores"] >= 1


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_commit_with_changed_files_says_so(tmp_path):
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    assert commit_of(tmp_path) is None
    git("init")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "first")
    commit = commit_of(tmp_path)
    assert len(commit) == 40
    (tmp_path / "file").write_text("2")
    assert commit_of(tmp_path) == f"{commit}+changes"


def test_the_digest_of_the_code_changes_with_a_module_and_with_the_native_core(tmp_path, monkeypatch):
    core = tmp_path / "core.so"
    core.write_bytes(b"one")
    (tmp_path / "package" / "lab").mkdir(parents=True)
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "package" / "lab" / "provenance.py"))
    monkeypatch.setattr(provenance, "find_library", lambda: core)
    seen = {source_digest()}
    core.write_bytes(b"two")
    seen.add(source_digest())
    module = tmp_path / "package" / "module.py"
    module.write_text("a = 1")
    seen.add(source_digest())
    module.write_text("a = 2")
    seen.add(source_digest())
    assert len(seen) == 4
    assert source_digest() in seen


def test_a_result_that_cannot_be_written_is_an_error_with_a_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="Choose another place"):
        write_whole(tmp_path / "file" / "out.json", "{}")


def test_results_are_written_whole(tmp_path):
    write_whole(tmp_path / "new" / "out.json", "{}")
    assert (tmp_path / "new" / "out.json").read_text() == "{}"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out.json"]
