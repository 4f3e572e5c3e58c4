"""How often a fit speaks, measures and saves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Rhythm:
    """How often a fit speaks and saves, in steps; this changes nothing about the weights."""

    report: int = 20
    measure: int = 500  # on texts held out
    save: int = 200
    held_out: int = 40  # texts to measure on
