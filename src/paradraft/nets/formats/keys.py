"""Values of a JSON object from a stranger's file, each checked when it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paradraft.core.errors import ModelError
from paradraft.models.folder.files import read_json

MOST = 2**31 - 1
_AGAIN = "Get the folder again from its source, or write it anew."


@dataclass(frozen=True, slots=True)
class Keys:
    """The entries of one object. A default makes an entry optional; null counts as absent.

    Every method raises ModelError that names file, key and value if the value is missing or of another kind.
    """

    content: Mapping[str, object]
    path: str  # what errors call the place

    def has(self, key: str) -> bool:
        """Whether there is a value."""
        return self.content.get(key) is not None

    def whole(self, key: str, *, low: int, high: int = MOST, default: int | None = None) -> int:
        """Return a whole number within bounds."""
        value = self._get(key, default)
        return self._whole(key, value, low, high)

    def wholes(self, key: str, *, low: int, high: int = MOST) -> tuple[int, ...]:
        """Return a list of whole numbers within bounds, empty if it is absent."""
        values = self.content.get(key) or []
        if not isinstance(values, list):
            raise self.refusal(key, values, "a list of whole numbers")
        return tuple(self._whole(key, value, low, high) for value in values)

    def number(self, key: str, *, default: float | None = None) -> float:
        """Return a finite number."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self.refusal(key, value, "a finite number")
        return float(value)

    def flag(self, key: str, *, default: bool | None = None) -> bool:
        """Return true or false."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self.refusal(key, value, "true or false")
        return value

    def text(self, key: str, *, default: str | None = None) -> str:
        """Return a text."""
        value = self._get(key, default)
        if not isinstance(value, str):
            raise self.refusal(key, value, "a text")
        return value

    def text_or_none(self, key: str) -> str | None:
        """Return a text, None if it is absent."""
        return self.text(key) if self.has(key) else None

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, empty if it is absent."""
        values = self.content.get(key) or []
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self.refusal(key, values, "a list of texts")
        return tuple(values)

    def inner(self, key: str) -> Keys:
        """Return an object inside, empty if it is absent."""
        return self._object(key, self.content.get(key) or {})

    def several(self, key: str) -> tuple[Keys, ...]:
        """Return a list of objects inside, empty if it is absent."""
        values = self.content.get(key) or []
        if not isinstance(values, list):
            raise self.refusal(key, values, "a list of objects")
        return tuple(self._object(f"{key}[{index}]", value) for index, value in enumerate(values))

    def names(self, key: str) -> tuple[str, ...]:
        """Return the keys of an object inside."""
        return tuple(self.inner(key).content)

    def refusal(self, key: str, value: object, wanted: str) -> ModelError:
        """Return the error for a value that is not what is wanted."""
        shown = repr(value) if len(repr(value)) < 80 else f"{repr(value)[:77]}..."
        return ModelError(f"{self.path}: {key}={shown} is not {wanted}.", remedy=_AGAIN)

    def _get(self, key: str, default: object) -> object:
        value = self.content.get(key)
        if value is not None:
            return value
        if default is None:
            raise ModelError(f"{self.path}: {key} is missing.", remedy=_AGAIN)
        return default

    def _whole(self, key: str, value: object, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.refusal(key, value, f"a whole number from {low} to {high}")
        return value

    def _object(self, key: str, value: object) -> Keys:
        if not isinstance(value, dict):
            raise self.refusal(key, value, "an object")
        return Keys(value, f"{self.path}: {key}")


def read_keys(path: Path) -> Keys:
    """Return the object in a JSON file; raise ModelError if it cannot be read or is none."""
    return Keys(read_json(path), str(path))
