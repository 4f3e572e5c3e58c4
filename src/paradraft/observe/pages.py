"""What goes on a page: of the engine, of its drafts, of the requests."""

from __future__ import annotations

import math
from collections.abc import Mapping

from paradraft.core.records import FinishReason, Hindrance
from paradraft.core.serving import EngineSnapshot, Health, ServedModel
from paradraft.core.spread import Spread, SpreadMeter
from paradraft.core.version import __version__
from paradraft.observe.bounds import GAMMAS
from paradraft.observe.labels import BoundedLabels, plain_label
from paradraft.observe.page import Page
from paradraft.observe.requests import RequestTallies

MAX_POSITIONS = 65  # gamma is at most 64
PHASES = ("propose", "score", "accept", "observe")


def add_engine(page: Page, snapshot: EngineSnapshot, model: ServedModel) -> None:
    """Add the queue, the cache and the steps."""
    held, cached, total = snapshot.pages_held, snapshot.pages_cached, snapshot.pages_total
    page.number("vllm:num_requests_running", snapshot.running)
    page.number("vllm:num_requests_waiting", snapshot.waiting)
    page.number("vllm:kv_cache_usage_perc", held / total if total else 0.0)
    page.number("vllm:num_preemptions", snapshot.counts.preemptions)
    page.number("vllm:prompt_tokens", snapshot.prompt_positions)
    page.number("vllm:prompt_tokens_cached", snapshot.cached_positions)
    page.number("vllm:generation_tokens", snapshot.committed)
    page.number("vllm:prefix_cache_queries", snapshot.prompt_positions)
    page.number("vllm:prefix_cache_hits", snapshot.cached_positions)
    page.number("paradraft_engine_steps", snapshot.steps)
    page.numbers("paradraft_kv_pages", {"held": held, "cached": cached, "free": total - held - cached})
    own = snapshot.positions_read - snapshot.positions_shared
    page.numbers("paradraft_kv_positions_read", {"shared": snapshot.positions_shared, "own": own})
    page.number("paradraft_kv_cache_reuse_ratio", snapshot.cache_reuse_ratio)
    if snapshot.step_tokens is not None:
        page.spread("vllm:iteration_tokens_total", snapshot.step_tokens)
    if "step" in snapshot.times:
        page.spread("paradraft_step_seconds", snapshot.times["step"])
    page.spreads(
        "paradraft_step_phase_seconds", {verb: snapshot.times[verb] for verb in PHASES if verb in snapshot.times}
    )
    facts = (__version__, model.drafter, model.rule, str(model.is_exact).lower(), model.dtype, model.runner)
    page.numbers("paradraft_build_info", {tuple(map(plain_label, facts)): 1})


def add_drafts(page: Page, snapshot: EngineSnapshot, model: ServedModel, kinds: BoundedLabels) -> None:
    """Add what was drafted, what became of it, and how the drafter fares."""
    counts, faults = snapshot.counts, snapshot.faults
    page.number("vllm:spec_decode_num_drafts", counts.drafted_by_depth[0] if counts.drafted_by_depth else 0)
    page.number("vllm:spec_decode_num_draft_tokens", counts.drafted)
    page.number("vllm:spec_decode_num_accepted_tokens", counts.accepted)
    per_position = _by_position(counts.accepted_by_depth, model.gamma)
    page.numbers("vllm:spec_decode_num_accepted_tokens_per_pos", per_position)
    page.numbers("paradraft_spec_refused_drafts", _by_position(counts.refused_by_depth, model.gamma))
    page.numbers("paradraft_spec_source_draft_tokens", _by_source(snapshot.sources, counts.drafted_by_source))
    page.numbers("paradraft_spec_source_accepted_tokens", _by_source(snapshot.sources, counts.accepted_by_source))
    wasted = {
        "rejected": counts.drafted - counts.accepted,
        "dropped": counts.dropped,
        "recomputed": counts.recomputed,
        "unverified": snapshot.num_unverified,
        "pruned": snapshot.num_pruned,
    }
    page.numbers("paradraft_spec_wasted_draft_tokens", wasted)
    page.spread("paradraft_spec_gamma", _gammas(snapshot.gammas))
    page.numbers("paradraft_spec_disabled_steps", {str(why): snapshot.hindrances.get(why, 0) for why in Hindrance})
    page.number("paradraft_spec_decode_seconds", snapshot.decode_seconds)
    page.number("paradraft_spec_plain_decode_seconds", snapshot.plain_seconds)
    plain = snapshot.plain_pass_seconds
    page.number("paradraft_plain_pass_seconds", math.nan if plain is None else plain)
    if snapshot.drafting is not None:
        page.spread("paradraft_drafter_latency_seconds", snapshot.drafting)
    page.number("paradraft_drafter_faults", sum(faults.by_kind.values()))
    page.numbers("paradraft_drafter_faults_by_kind", kinds.sums(faults.by_kind))
    page.number("paradraft_drafter_pauses", faults.num_pauses)
    page.number("paradraft_drafter_resting", faults.is_resting)


def add_health(page: Page, health: Health, wall_time: float) -> None:
    """Add whether the engine does its work; wall_time is now, in seconds since 1970."""
    page.number("paradraft_engine_up", health.is_alive)
    page.number("paradraft_engine_has_work", health.has_work)
    page.number("paradraft_engine_seconds_since_progress", health.seconds_since_progress)
    page.number("paradraft_engine_last_progress_timestamp_seconds", wall_time - health.seconds_since_progress)


def add_requests(page: Page, tallies: RequestTallies, now: float) -> None:
    """Add what requests lived through; now is by the clock they were told by."""
    for name, meter in {
        "vllm:time_to_first_token_seconds": tallies.first_token,
        "vllm:inter_token_latency_seconds": tallies.between_tokens,
        "vllm:request_time_per_output_token_seconds": tallies.per_token,
        "vllm:e2e_request_latency_seconds": tallies.whole,
        "vllm:request_queue_time_seconds": tallies.queued,
        "vllm:request_inference_time_seconds": tallies.inference,
        "vllm:request_prefill_time_seconds": tallies.prefill,
        "vllm:request_decode_time_seconds": tallies.decode,
        "vllm:request_prompt_tokens": tallies.prompt_tokens,
        "vllm:request_generation_tokens": tallies.new_tokens,
        "vllm:request_max_num_generation_tokens": tallies.longest_tokens,
        "vllm:request_params_n": tallies.choices,
        "vllm:request_params_max_tokens": tallies.max_tokens,
        "paradraft_spec_request_acceptance_rate": tallies.acceptance,
        "paradraft_spec_request_path_acceptance_rate": tallies.path_acceptance,
    }.items():
        page.spread(name, meter.read())
    page.numbers("vllm:request_success", {str(why): tallies.ended[why] for why in FinishReason})
    page.numbers("paradraft_requests_rejected", dict(tallies.refusals))
    page.number("paradraft_spec_acceptance_deviation", tallies.window.deviation(now))
    classes = tallies.classes.items()
    page.numbers("paradraft_class_requests", {name: each.requests for name, each in classes})
    page.numbers("paradraft_class_draft_tokens", {name: each.drafted for name, each in classes})
    page.numbers("paradraft_class_accepted_tokens", {name: each.accepted for name, each in classes})
    page.numbers("paradraft_class_refused_drafts", {name: each.refused for name, each in classes})
    page.numbers("paradraft_class_acceptance_deviation", {name: each.window.deviation(now) for name, each in classes})


def _by_position(counts: tuple[int, ...], gamma: int) -> dict[str, int]:
    """Return counts by position from 0; a deeper draft than MAX_POSITIONS has its last ones counted nowhere."""
    width = min(max(gamma, len(counts)), MAX_POSITIONS)
    return {str(at): counts[at] if at < len(counts) else 0 for at in range(width)}


def _by_source(sources: tuple[str, ...], counts: tuple[int, ...]) -> dict[str, int]:
    """Return counts by the source's name; sources of one name count together."""
    found: dict[str, int] = {}
    for at, source in enumerate(sources):
        name = plain_label(source)
        found[name] = found.get(name, 0) + (counts[at] if at < len(counts) else 0)
    return found


def _gammas(times: Mapping[int, int]) -> Spread:
    meter = SpreadMeter(GAMMAS)
    for gamma, count in times.items():
        meter.add(gamma, count)
    return meter.read()
