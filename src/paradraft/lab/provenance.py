"""Where a figure comes from: versions, commit, machine, command, weights."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from paradraft.lab.machine import read_machine
from paradraft.native.library import find_library

_PACKAGES = ("paradraft", "torch", "transformers", "tokenizers", "safetensors", "numpy")
_TELLING_FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_bf16", "amx_int8", "bf16", "i8mm")


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Everything needed to repeat a measurement."""

    versions: Mapping[str, str]
    commit: str | None  # None outside a clone; ends in "+changes" if files differ from it
    machine: Mapping[str, str | int | float | None]
    command: str
    started_at: str
    model: Mapping[str, str | int | None]
    dtype: str
    settings: Mapping[str, object]


def gather(
    *, command: Sequence[str], model: Mapping[str, str | int | None], dtype: str, settings: Mapping[str, object]
) -> Provenance:
    """Return the provenance of a measurement that starts now."""
    return Provenance(
        versions={"python": sys.version.split()[0]} | {name: _version(name) for name in _PACKAGES},
        commit=commit_of(Path(__file__).parent),
        machine=_machine(),
        command=shlex.join(command),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        model=model,
        dtype=dtype,
        settings=settings,
    )


def commit_of(folder: Path) -> str | None:
    """Return the commit of the clone that holds a folder, None if there is no clone or no git."""
    head = _git(folder, "rev-parse", "HEAD")
    if head is None or _git(folder, "ls-files", "--error-unmatch", ".") is None:
        return None
    return head + ("+changes" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")


def source_digest() -> str:
    """Return the SHA-256 of the package's modules and native core: it knows of changes, and needs no clone."""
    package, core = Path(__file__).parents[1], find_library()
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    digest.update(b"" if core is None else core.read_bytes())
    return digest.hexdigest()


def _git(folder: Path, *arguments: str) -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    done = subprocess.run([git, "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def _machine() -> dict[str, str | int | float | None]:
    facts = read_machine()
    return {
        "cpu": facts.cpu,
        "architecture": facts.architecture,
        "cores": facts.cores,
        "flags": " ".join(flag for flag in _TELLING_FLAGS if flag in facts.cpu_flags),
        "memory_bytes": facts.memory_bytes,
        "load_before": facts.load,
        "nvidia_driver": facts.nvidia_driver,
    }
