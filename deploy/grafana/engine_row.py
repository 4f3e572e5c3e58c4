"""The row of the engine: steps, cache and machine."""

from __future__ import annotations

from panel import LATENCY_COLOURS, Panel
from queries import mean, quantiles, ratio, total

STEPS = total("paradraft_engine_steps_total")
PHASES = ("propose", "score", "accept", "observe")


def phase(name: str) -> str:
    """Return the mean seconds of a verb in a step."""
    return ratio(total("paradraft_step_phase_seconds_sum", f',phase="{name}"'), STEPS)


ENGINE = (
    Panel(
        title="Where a step's time goes",
        says="Means per step, by verb; the rest is planning, gathering and committing.",
        queries={
            **{name: phase(name) for name in PHASES},
            "rest": f"{mean('paradraft_step_seconds')} - {ratio(total('paradraft_step_phase_seconds_sum'), STEPS)}",
        },
        unit="s",
        is_stacked=True,
        colours={"propose": "orange", "score": "good", "accept": "calm", "observe": "other", "rest": "faint"},
    ),
    Panel(
        title="Time of a step",
        says="All verbs together.",
        queries=quantiles("paradraft_step_seconds"),
        unit="s",
        colours=LATENCY_COLOURS,
    ),
    Panel(
        title="Utilisation of the target (VGU)",
        says="Share of its steps' time in which the target computes.",
        queries={
            "VGU": ratio(
                total("paradraft_step_phase_seconds_sum", ',phase="score"'), total("paradraft_step_seconds_sum")
            )
        },
        unit="percentunit",
        top=1.0,
        steps=(("bad", None), ("good", 0.6)),
        colours={"VGU": "good"},
    ),
    Panel(
        title="Tokens of a step",
        says="Prompt tokens fed and tokens committed.",
        queries=quantiles("vllm:iteration_tokens_total", shares=(0.5, 0.95)),
        colours={"P50": "good", "P95": "warn"},
    ),
    Panel(
        title="Steps a second",
        says="Passes of the target.",
        queries={"{{instance}}": total("paradraft_engine_steps_total", by="instance")},
        unit="ops",
    ),
    Panel(
        title="Preemptions",
        says="Rows that lost their pages to older ones; their prompts are computed again.",
        queries={"preemptions": total("vllm:num_preemptions_total")},
        unit="ops",
        colours={"preemptions": "bad"},
    ),
    Panel(
        title="Cache in use",
        says="Share of pages that rows hold.",
        queries={"{{instance}}": "vllm:kv_cache_usage_perc{$m}"},
        unit="percentunit",
        top=1.0,
        steps=(("good", None), ("warn", 0.9)),
    ),
    Panel(
        title="Pages of the cache",
        says="Held by rows, cached for whoever begins alike, free.",
        queries={"{{state}}": "sum by (state) (paradraft_kv_pages{$m})"},
        is_stacked=True,
        colours={"held": "orange", "cached": "cyan", "free": "faint"},
    ),
    Panel(
        title="Reuse of the cache",
        says="CRR: positions read in shared pages by all positions read. Hits: prompt tokens found there.",
        queries={
            "CRR": ratio(
                total("paradraft_kv_positions_read_total", ',kind="shared"'),
                total("paradraft_kv_positions_read_total"),
            ),
            "hits": ratio(total("vllm:prefix_cache_hits_total"), total("vllm:prefix_cache_queries_total")),
        },
        unit="percentunit",
        top=1.0,
        colours={"CRR": "cyan", "hits": "calm"},
    ),
    Panel(
        title="Since the last step",
        says="While there is work; 0 while idle.",
        queries={"{{instance}}": "paradraft_engine_seconds_since_progress{$m}"},
        unit="s",
        steps=(("good", None), ("bad", 30.0)),
    ),
    Panel(
        title="Processor",
        says="Cores at work for the server's process.",
        queries={"{{instance}}": 'rate(process_cpu_seconds_total{instance=~"$instance"}[$__rate_interval])'},
        unit="suffix: cores",
    ),
    Panel(
        title="Memory",
        says="Of the server's process: weights that are mapped count as far as they were read.",
        queries={"{{instance}}": 'process_resident_memory_bytes{instance=~"$instance"}'},
        unit="bytes",
    ),
    Panel(
        title="What runs",
        says="Version, drafter, rule, number format and runner of each server.",
        queries={"": "paradraft_build_info{$m}"},
        kind="table",
        width=24,
    ),
)
