"""What holds for every test: nothing is left in the user's cache."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _pack_in_memory_only() -> Iterator[None]:
    """Tests of saving set a cache and a limit of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARADRAFT_PACKED_GB", "0")
        yield
