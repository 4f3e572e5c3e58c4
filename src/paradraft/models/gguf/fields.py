"""The metadata of one architecture in a GGUF file, value by value, with checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from paradraft.core.errors import ModelError
from paradraft.models.gguf.header import Value

Config = dict[str, object]


class Fields:
    """Reads `<architecture>.<key>`; every unusable value raises ModelError naming file, key and value."""

    def __init__(self, metadata: Mapping[str, Value], path: Path, *, architectures: tuple[str, ...]) -> None:
        """Find the architecture; raise ModelError if it is none of these."""
        self.metadata = metadata
        self.path = path
        self.architecture = str(metadata.get("general.architecture", ""))
        if self.architecture not in architectures:
            raise ModelError(
                f"{path}: the architecture {self.architecture!r} is not supported from GGUF files.",
                remedy=f"Use one of {', '.join(architectures)}, or the model's safetensors folder.",
            )

    def get(self, key: str) -> Value | None:
        """Return the value of a key, None if absent."""
        return self.metadata.get(f"{self.architecture}.{key}")

    def integer(self, key: str, default: int | None = None) -> int:
        """Return a whole number of at least 1; a key without default must be there."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.error(key, "a whole number of at least 1")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a positive number, as the shortest decimal that has the same fp32 value: 1e-05, not 9.99999974e-06."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            raise self.error(key, "a number above 0")
        return float(str(np.float32(value)))

    def error(self, key: str, wanted: str) -> ModelError:
        """Return the error for a value that cannot be used."""
        return ModelError(
            f"{self.path}: {self.architecture}.{key}={self.get(key)!r} is not {wanted}.",
            remedy="Get the file again from its source, or use the model's safetensors folder.",
        )
