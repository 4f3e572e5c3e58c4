"""What foreign code may raise when it is handed something it was not made for."""

from __future__ import annotations

import torch

FOREIGN_FAULTS = (RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError)
OTHER_MODEL = "Choose a model of another architecture."


def raise_if_memory(error: Exception) -> None:
    """Raise the error again if it says that memory is used up, which is no fault of the model."""
    if isinstance(error, torch.OutOfMemoryError) or (isinstance(error, RuntimeError) and "alloc" in str(error)):
        raise error


def told(error: Exception) -> str:
    """Return the kind of an error and the first line of what it says."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
