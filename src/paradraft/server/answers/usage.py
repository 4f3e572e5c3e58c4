"""How many tokens a request took, and what speculation did for it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from paradraft.core.events import GenerationStats

Json = dict[str, object]


def usage_of(prompt_tokens: int, completion_tokens: int, cached: int) -> Json:
    """Return OpenAI's usage object."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def metrics_of(stats: Iterable[GenerationStats], gamma: int) -> Json:
    """Return what speculation did for all choices together, in the shape of vLLM's per-request metrics.

    A step counts where something was drafted; mean_acceptance_length includes the token that the target adds.
    num_passes, which vLLM does not tell, counts all passes of the target, over the prompt and without drafts too.
    """
    passes = drafts = drafted = accepted = 0
    reached: list[int] = []
    for each in stats:
        passes += each.passes
        drafts += each.drafted_by_depth[0] if each.drafted_by_depth else 0
        drafted += each.drafted
        accepted += each.accepted
        levels = each.accepted_by_depth
        reached += [0] * (len(levels) - len(reached))
        for depth, times in enumerate(levels):
            reached[depth] += times
    at_least = [drafts, *reached, 0]
    return {
        "speculative_decoding": {
            "mean_acceptance_length": 1.0 + accepted / drafts if drafts else 1.0,
            "draft_acceptance_rate": accepted / drafted if drafted else 0.0,
            "acceptance_histogram": [a - b for a, b in pairwise(at_least)],
            "num_spec_steps": drafts,
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": drafted,
            "num_spec_tokens": gamma,
            "num_passes": passes,
        }
    }
