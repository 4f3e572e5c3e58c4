"""What all bodies have in common."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, model_validator


class Body(BaseModel):
    """A JSON object whose fields are all known; numbers are not read from texts."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="wrap")
    @classmethod
    def _bound_the_fields(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuse more fields than there are names for at once: telling of each would take seconds."""
        if isinstance(data, dict) and len(data) > len(cls.model_fields):
            raise ValueError(f"{len(data)} fields are more than are known here")
        return handler(data)
