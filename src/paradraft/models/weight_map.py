"""Weights by their Hugging Face names, read one tensor at a time when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from paradraft.core.errors import ModelError
from paradraft.models.stored import Places, StoredTensor, Table

Reader = Callable[[], StoredTensor]


class WeightMap(Mapping[str, StoredTensor]):
    """A read-only mapping from tensor names to tensors in the format they are stored in (fp32 if quantised).

    Nothing is kept: each look-up reads from the file, so a caller that converts tensor by tensor holds one copy.
    A look-up raises ModelError if the tensor has a value that is not finite.
    """

    def __init__(self, readers: Mapping[str, Reader], *, origin: str) -> None:
        """Take a reader for each name; origin is what errors call the source."""
        self._readers = dict(readers)
        self._origin = origin

    def __getitem__(self, name: str) -> StoredTensor:
        """Read a tensor; raise KeyError for an unknown name."""
        tensor = self._readers[name]()
        _check_finite(name, tensor, self._origin)
        return tensor

    def table(self, name: str) -> Table:
        """Return a matrix whose rows are read, and checked, when they are asked for; KeyError for an unknown name."""
        reader = self._readers[name]
        return _CheckedTable(reader if isinstance(reader, Table) else reader(), name, self._origin)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._readers)

    def __len__(self) -> int:
        """Return the number of tensors."""
        return len(self._readers)

    def __contains__(self, name: object) -> bool:
        """Whether there is such a tensor; does not read it."""
        return name in self._readers


class _CheckedTable:
    """Implements models.stored.Table: every value that it gives is finite."""

    def __init__(self, table: Table, name: str, origin: str) -> None:
        self.shape = table.shape
        self._table, self._name, self._origin = table, name, origin

    def rows(self, places: Places) -> StoredTensor:
        found = self._table.rows(places)
        _check_finite(f"{self._name}, of the rows that were asked for,", found, self._origin)
        return found


def _check_finite(name: str, tensor: StoredTensor, origin: str) -> None:
    wrong = tensor.find_not_finite() if tensor.is_floating_point else None
    if wrong is not None:
        raise ModelError(
            f"{origin}: the weight {name} holds {wrong[1]} at element {wrong[0]}, so every answer would be wrong.",
            remedy="The file is damaged or badly converted; get it again from its source.",
        )
