"""How a check answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One line of the doctor's answer."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


def ok(name: str, detail: str) -> Finding:
    """Return a finding that needs no remedy."""
    return Finding(name=name, status=Status.OK, detail=detail)


def warn(name: str, detail: str, remedy: str) -> Finding:
    """Return a finding that costs speed or comfort."""
    return Finding(name=name, status=Status.WARN, detail=detail, remedy=remedy)


def fail(name: str, detail: str, remedy: str) -> Finding:
    """Return a finding that stops the product from working."""
    return Finding(name=name, status=Status.FAIL, detail=detail, remedy=remedy)
