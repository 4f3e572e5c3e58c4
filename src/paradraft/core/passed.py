"""What every runner hands back of a pass, whoever computed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from paradraft.core.errors import ProtocolError
from paradraft.core.ports import Scores

ScoresKind = TypeVar("ScoresKind", bound=Scores)
Tap = TypeVar("Tap")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DoneTicket(Generic[ScoresKind]):
    """The ticket of a pass that was queued or had ended when submit returned; reading its scores waits for the rest."""

    scores: ScoresKind

    def wait(self) -> ScoresKind:
        """Return the scores."""
        return self.scores


def recorded(taps: Mapping[int, Tap], layer: int, what: str) -> Tap:
    """Return what a pass recorded of a layer; raise ProtocolError naming `what` if it was not asked to."""
    if layer not in taps:
        raise ProtocolError(
            f"{what} of layer {layer} were not recorded; recorded layers: {sorted(taps) or 'none'}.",
            remedy="Name the layer in the drafter's Needs.",
        )
    return taps[layer]
