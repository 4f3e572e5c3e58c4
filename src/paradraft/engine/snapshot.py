"""The state of an engine as a frozen record, put together from its owners."""

from __future__ import annotations

from dataclasses import replace

from paradraft.core.faults import DrafterFaults, Walled
from paradraft.core.ports import Drafter
from paradraft.core.serving import EngineSnapshot
from paradraft.engine.rows import Rows
from paradraft.engine.statistics import Totals
from paradraft.kv.pages import PageCache


def take_snapshot(
    *,
    totals: Totals,
    rows: Rows,
    pages: PageCache,
    plain_pass_seconds: float | None,
    drafter: Drafter,
    num_unverified: int,
    num_pruned: int,
) -> EngineSnapshot:
    """Return copies of all counts; nothing in it changes with the next step."""
    admissions, held = rows.admissions, pages.counts()
    shared, read = pages.positions_read()
    counts = replace(
        totals.tally.snapshot(),
        recomputed=admissions.recomputed,
        cached_prompt_tokens=admissions.cached_positions,
        preemptions=admissions.preemptions,
    )
    return EngineSnapshot(
        running=rows.num_running,
        waiting=len(rows) - rows.num_running,
        pages_total=held.total,
        pages_held=held.held,
        pages_cached=held.cached,
        cache_reuse_ratio=totals.cache_reuse_ratio,
        positions_read=read,
        positions_shared=shared,
        prompt_positions=admissions.prompt_positions,
        cached_positions=admissions.cached_positions,
        steps=totals.steps,
        committed=totals.committed,
        finished=totals.finished,
        failed=totals.failed,
        times={verb: meter.read() for verb, meter in totals.times.items()},
        drafting=totals.drafting.read(),
        step_tokens=totals.step_tokens.read(),
        plain_pass_seconds=plain_pass_seconds,
        decode_seconds=totals.decode_seconds,
        plain_seconds=totals.plain_seconds,
        counts=counts,
        sources=drafter.needs.sources,
        num_unverified=num_unverified,
        num_pruned=num_pruned,
        faults=drafter.faults() if isinstance(drafter, Walled) else DrafterFaults(),
        gammas=dict(totals.gammas),
        hindrances=dict(totals.hindrances),
    )
