"""The folder on this machine where assets, pins and digests are kept."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from paradraft.core.errors import ModelError

ENVIRONMENT_VARIABLE = "PARADRAFT_CACHE"


def cache_folder() -> Path:
    """Return the cache folder: $PARADRAFT_CACHE, else `paradraft` in the platform's folder for user caches."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(chosen).expanduser() if chosen else _user_caches() / "paradraft"


def make_folder(folder: Path) -> Path:
    """Create a folder of the cache with its parents; raise ModelError if it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from error
    return folder


def write_error(path: Path, error: OSError) -> ModelError:
    """Return the ModelError that tells why a path of the cache cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ModelError(
            f"{path} cannot be written: the disk is full.",
            remedy=f"Free some space, or point {ENVIRONMENT_VARIABLE} at a folder on another disk.",
        )
    return ModelError(
        f"{path} cannot be written ({error.strerror or error}).",
        remedy=f"Make it writable, or point {ENVIRONMENT_VARIABLE} at a folder that is.",
    )


def _user_caches() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
