"""What all bodies have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Body(BaseModel):
    """A JSON object whose fields are all known; numbers are not read from texts."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
