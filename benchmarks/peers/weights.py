"""The same weights in the form that each engine reads, written once and kept."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from gguf_files import KINDS, write_gguf

from paradraft.cli.opening import export_folder
from paradraft.models.checkpoint import find_model, open_checkpoint

# What OpenVINO's exporter is told: fp32 holds bf16 exactly, the plug-in computes in bf16 then.
OPENVINO = {"bf16": "fp32", "int8": "int8"}
FORMS = ("bf16", *(f"gguf-{kind}" for kind in KINDS), *(f"openvino-{precision}" for precision in OPENVINO))


class WeightsMissing(Exception):
    """A form of the weights could not be written; the text says why."""


class Weights:
    """The forms of one model in a folder of its own below `folder`, named by its hash."""

    def __init__(self, model: str, folder: Path, environments: Path) -> None:
        self._checkpoint = open_checkpoint(find_model(model))
        self._model = model
        self.sha256 = self._checkpoint.sha256()
        self.folder = folder / f"{Path(model).stem}-{self.sha256[:12]}"
        self._environments = environments

    def form(self, name: str) -> Path:
        """Return the folder or file of this form (of FORMS), which is written first if it is not there."""
        kind, _, detail = name.partition("-")
        if kind == "gguf":
            return self._once(f"{detail}.gguf", lambda path: write_gguf(self.form("bf16"), path, detail))
        if kind == "openvino":
            return self._once(name, lambda path: self._convert(path, OPENVINO[detail]))
        return self._once("bf16", lambda path: export_folder(self._model, path, dtype="bf16"))

    def _once(self, name: str, write: Callable[[Path], object]) -> Path:
        """Return what is there, or write it beside and put it in place when it is whole."""
        path, partial = self.folder / name, self.folder / f"partial-{name}"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            _remove(partial)
            write(partial)
            partial.rename(path)
        return path

    def _convert(self, path: Path, weight_format: str) -> None:
        program = self._environments / "openvino/bin/optimum-cli"
        command = [program, "export", "openvino", "-m", self.form("bf16"), "--task", "text-generation-with-past"]
        try:
            done = subprocess.run(
                [str(part) for part in (*command, "--weight-format", weight_format, path)],
                env={**os.environ, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, check=False,
            )  # fmt: skip
        except OSError as error:
            raise WeightsMissing(f"{program} cannot be started ({error.strerror})") from error
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no word"])[-1]
            raise WeightsMissing(f"optimum-cli ended with {done.returncode}: {last}")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
