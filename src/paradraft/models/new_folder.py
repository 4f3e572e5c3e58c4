"""Makes a folder that appears only when it is complete."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from paradraft.core.errors import ModelError


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a folder to fill; it takes its name when the block ends well and vanishes if it does not.

    Raises ModelError if the target exists and is not empty, or if it cannot be written.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ModelError(f"{target} exists and is not an empty folder.", remedy="Name a folder that is to be made.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as temporary:
            partial = Path(temporary) / "folder"
            partial.mkdir()
            yield partial
            _share(partial)
            partial.replace(target)
    except (OSError, SafetensorError) as error:
        raise _write_error(target, error) from error


def _share(folder: Path) -> None:
    """Let whoever may enter the folder read its files: safetensors writes them for their owner alone."""
    mode = folder.stat().st_mode & 0o666
    for path in folder.iterdir():
        path.chmod(mode)


def _write_error(target: Path, error: OSError | SafetensorError) -> ModelError:
    is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    reason = "the disk is full" if is_full else str(error).rstrip(".")
    return ModelError(
        f"{target} cannot be written: {reason}.", remedy="Name a folder on a disk with space that you may write to."
    )
