"""Weights by their Hugging Face names, read one tensor at a time when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch

from paradraft.core.errors import ModelError

Reader = Callable[[], torch.Tensor]


class WeightMap(Mapping[str, torch.Tensor]):
    """A read-only mapping from tensor names to tensors in the dtype they are stored in (fp32 if quantised).

    Nothing is kept: each look-up reads from the file, so a caller that converts tensor by tensor holds one copy.
    A look-up raises ModelError if the tensor has a value that is not finite.
    """

    def __init__(self, readers: Mapping[str, Reader], *, origin: str) -> None:
        """Take a reader for each name; origin is what errors call the source."""
        self._readers = dict(readers)
        self._origin = origin

    def __getitem__(self, name: str) -> torch.Tensor:
        """Read a tensor; raise KeyError for an unknown name."""
        tensor = self._readers[name]()
        if tensor.is_floating_point():
            _check_finite(name, tensor, self._origin)
        return tensor

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._readers)

    def __len__(self) -> int:
        """Return the number of tensors."""
        return len(self._readers)

    def __contains__(self, name: object) -> bool:
        """Whether there is such a tensor; does not read it."""
        return name in self._readers


def _check_finite(name: str, tensor: torch.Tensor, origin: str) -> None:
    if torch.isfinite(tensor.sum()):  # a NaN or infinity survives the sum, which is fast
        return
    values = tensor.flatten()
    wrong = (~torch.isfinite(values)).nonzero()
    if not len(wrong):  # the sum alone was too large
        return
    at = int(wrong[0])
    raise ModelError(
        f"{origin}: the weight {name} holds {float(values[at])} at element {at}, so every answer would be wrong.",
        remedy="The file is damaged or badly converted; get it again from its source.",
    )
