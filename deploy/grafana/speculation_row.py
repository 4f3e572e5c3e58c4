"""The row of speculation: what it brings, what is accepted and why not, and how the drafter fares."""

from __future__ import annotations

from panel import LATENCY_COLOURS, TOKENS_PER_SECOND, Panel
from queries import mean, quantile, quantiles, ratio, total

ACCEPTED = total("vllm:spec_decode_num_accepted_tokens_total")
DRAFTED = total("vllm:spec_decode_num_draft_tokens_total")
DRAFTS = total("vllm:spec_decode_num_drafts_total")
REFUSED = total("paradraft_spec_refused_drafts_total")
PATH = ratio(ACCEPTED, f"({ACCEPTED} + {REFUSED})")
CLASS_DRAFTED = total("paradraft_class_draft_tokens_total", by="prompt_class")
CLASS_ACCEPTED = total("paradraft_class_accepted_tokens_total", by="prompt_class")
CLASS_REFUSED = total("paradraft_class_refused_drafts_total", by="prompt_class")

SPECULATION = (
    Panel(
        title="Speed-up",
        says="Time that the tokens would have taken in passes without drafts, by the time their steps took.",
        queries={
            "speed-up": ratio(
                total("paradraft_spec_plain_decode_seconds_total"), total("paradraft_spec_decode_seconds_total")
            )
        },
        unit="suffix:x",
        kind="stat",
        width=6,
        steps=(("bad", None), ("warn", 1.0), ("good", 1.1)),
    ),
    Panel(
        title="Tokens a draft",
        says="Mean acceptance length: 1 + accepted / drafts.",
        queries={"mean length": f"1 + {ratio(ACCEPTED, DRAFTS)}"},
        kind="stat",
        width=6,
        steps=(("calm", None),),
    ),
    Panel(
        title="Acceptance along paths",
        says="Steps into drafts that found the right token: accepted / (accepted + refused).",
        queries={"path acceptance": PATH},
        unit="percentunit",
        kind="stat",
        width=6,
        steps=(("warn", None), ("calm", 0.55), ("good", 0.65)),
    ),
    Panel(
        title="ARSD",
        says="Deviation of acceptance along paths within the last minute.",
        queries={"ARSD": "max (paradraft_spec_acceptance_deviation{$m})"},
        unit="percentunit",
        kind="stat",
        width=6,
        steps=(("good", None), ("warn", 0.05), ("bad", 0.1)),
    ),
    Panel(
        title="Acceptance",
        says="Along paths, and accepted by verified draft tokens: a tree is low on the second one by design.",
        queries={"along paths": PATH, "accepted by verified": ratio(ACCEPTED, DRAFTED)},
        unit="percentunit",
        top=1.0,
        colours={"along paths": "good", "accepted by verified": "calm"},
    ),
    Panel(
        title="Acceptance by position",
        says="Share of drafts whose accepted path reached a position, from 0.",
        queries={
            "{{position}}": f"{total('vllm:spec_decode_num_accepted_tokens_per_pos_total', by='position')}"
            f" / on () group_left () ({DRAFTS} > 0)"
        },
        unit="percentunit",
        top=1.0,
    ),
    Panel(
        title="Refusals by position",
        says="Share of drafts whose walk ended at a position because no node was right.",
        queries={
            "{{position}}": f"{total('paradraft_spec_refused_drafts_total', by='position')}"
            f" / on () group_left () ({DRAFTS} > 0)"
        },
        unit="percentunit",
        top=1.0,
    ),
    Panel(
        title="Acceptance of choices",
        says="Heatmap of acceptance along paths. Very low: a drafter that does not fit; very high: texts that repeat.",
        queries={
            "{{le}}": "sum by (le) (increase(paradraft_spec_request_path_acceptance_rate_bucket{$m}[$__rate_interval]))"
        },
        kind="heatmap",
    ),
    Panel(
        title="Acceptance by class of prompt",
        says="Along paths, by the class that clients name.",
        queries={
            "{{prompt_class}}": f"{CLASS_ACCEPTED} / (({CLASS_ACCEPTED} + {CLASS_REFUSED}) > 0)",
        },
        unit="percentunit",
        top=1.0,
    ),
    Panel(
        title="Verified draft tokens by class of prompt",
        says="Accepted by verified draft tokens, by the class that clients name.",
        queries={"{{prompt_class}}": f"{CLASS_ACCEPTED} / ({CLASS_DRAFTED} > 0)"},
        unit="percentunit",
        top=1.0,
    ),
    Panel(
        title="Draft tokens by class of prompt",
        says="Verified, and of these accepted, of choices that ended.",
        queries={"{{prompt_class}} verified": CLASS_DRAFTED, "{{prompt_class}} accepted": CLASS_ACCEPTED},
        unit=TOKENS_PER_SECOND,
    ),
    Panel(
        title="ARSD by class of prompt",
        says="Deviation of acceptance within the last minute.",
        queries={"{{prompt_class}}": "max by (prompt_class) (paradraft_class_acceptance_deviation{$m})"},
        unit="percentunit",
        steps=(("good", None), ("bad", 0.05)),
    ),
    Panel(
        title="Draft tokens",
        says="Accepted, and those that saved no pass: rejected, behind a stop, computed again, not verified.",
        queries={
            "accepted": ACCEPTED,
            "{{reason}}": total("paradraft_spec_wasted_draft_tokens_total", by="reason"),
        },
        unit=TOKENS_PER_SECOND,
        is_stacked=True,
        colours={
            "accepted": "good",
            "rejected": "bad",
            "dropped": "orange",
            "recomputed": "warn",
            "unverified": "faint",
            "pruned": "other",
        },
    ),
    Panel(
        title="Sources",
        says="Accepted by verified draft tokens of each source; one token may have several.",
        queries={
            "{{source}}": f"{total('paradraft_spec_source_accepted_tokens_total', by='source')}"
            f" / ({total('paradraft_spec_source_draft_tokens_total', by='source')} > 0)"
        },
        unit="percentunit",
    ),
    Panel(
        title="Depth of drafts (gamma)",
        says="Planned for decoding rows, plain passes included.",
        queries={"mean": mean("paradraft_spec_gamma"), "P95": quantile(0.95, "paradraft_spec_gamma")},
        colours={"mean": "calm", "P95": "cyan"},
    ),
    Panel(
        title="Why rows had no draft",
        says="Share of decoding passes.",
        queries={
            "{{reason}}": f"{total('paradraft_spec_disabled_steps_total', by='reason')}"
            f" / on () group_left () ({total('paradraft_spec_gamma_count')} > 0)"
        },
        unit="percentunit",
        top=1.0,
        is_stacked=True,
        colours={"drafter_fault": "bad", "drafter_resting": "orange", "no_guess": "faint", "losing": "warn"},
    ),
    Panel(
        title="Drafter's time",
        says="For a step in which a row might draft, beside a pass without drafts.",
        queries={
            **quantiles("paradraft_drafter_latency_seconds"),
            "a pass": "max (paradraft_plain_pass_seconds{$m})",
        },
        unit="s",
        colours={**LATENCY_COLOURS, "a pass": "calm"},
    ),
    Panel(
        title="Drafter's faults",
        says="By kind; they cost drafts and no answer. Pauses: times a part was left out because it failed too often.",
        queries={
            "all": total("paradraft_drafter_faults_total"),
            "{{kind}}": total("paradraft_drafter_faults_by_kind_total", by="kind"),
            "pauses": total("paradraft_drafter_pauses_total"),
            "resting": "max (paradraft_drafter_resting{$m})",
        },
        colours={"all": "bad", "pauses": "warn", "resting": "orange"},
    ),
)
