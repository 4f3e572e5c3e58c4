"""A request as the engine takes it: token ids, parameters and a seed that is always set."""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.core.sampling import SamplingParams


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One prompt with n choices to generate. `tenant` bounds what may be shared between requests.

    `label` is the class of prompt that a client names; figures are kept by it, and nothing else depends on it.
    `tells_counts`: every event has the choice's counts so far, for whoever may end a choice before the engine does.
    """

    request_id: str
    prompt: tuple[int, ...]
    params: SamplingParams
    seed: int
    tenant: str = ""
    label: str = ""
    tells_counts: bool = False


def may_draft(params: SamplingParams) -> bool:
    """Whether the request lets anybody draft for it."""
    return params.speculate and params.gamma != 0 and params.draft_from != ()
