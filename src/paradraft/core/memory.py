"""Memory that was freed and that the C library keeps for itself."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def return_freed_memory() -> None:
    """Give freed memory back to the system, where the C library can (glibc); takes less than a millisecond.

    Reading a model makes and frees large objects, vocabularies above all. glibc keeps the pages below whatever is
    still in use, and only this call lets them go.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
