"""Every metric by its name: what kind it is, the labels it has beside model_name and engine, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Kind(StrEnum):
    """The kinds of metrics that Prometheus knows."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One metric. On the wire a counter's name ends in _total."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str

    @property
    def wire_name(self) -> str:
        """Return the name as queries use it."""
        return f"{self.name}_total" if self.kind is Kind.COUNTER else self.name


_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_ROWS: tuple[tuple[str, Kind, str, str], ...] = (
    # vLLM's names and meanings.
    ("vllm:num_requests_running", _G, "", "Choices that have a row."),
    ("vllm:num_requests_waiting", _G, "", "Choices in the queue."),
    ("vllm:kv_cache_usage_perc", _G, "", "Share of the cache's pages that rows hold, 0 to 1."),
    ("vllm:num_preemptions", _C, "", "Times a row lost its pages to an older one."),
    ("vllm:prompt_tokens", _C, "", "Prompt tokens of admitted choices, cached ones included."),
    ("vllm:prompt_tokens_cached", _C, "", "Prompt tokens found in the prefix cache."),
    ("vllm:generation_tokens", _C, "", "Tokens committed to answers."),
    ("vllm:request_success", _C, "finished_reason", "Choices that ended, by why."),
    ("vllm:prefix_cache_queries", _C, "", "Prompt tokens looked for in the prefix cache."),
    ("vllm:prefix_cache_hits", _C, "", "Prompt tokens found there."),
    ("vllm:spec_decode_num_drafts", _C, "", "Drafts verified: passes of a row with at least one draft token."),
    ("vllm:spec_decode_num_draft_tokens", _C, "", "Draft tokens verified, those beside the accepted path included."),
    ("vllm:spec_decode_num_accepted_tokens", _C, "", "Draft tokens accepted."),
    ("vllm:spec_decode_num_accepted_tokens_per_pos", _C, "position", "Drafts whose accepted path reached a position."),
    ("vllm:time_to_first_token_seconds", _H, "", "From a request's arrival to a choice's first token."),
    (
        "vllm:inter_token_latency_seconds",
        _H,
        "",
        "Between two steps that gave a choice tokens; a step may give several.",
    ),
    ("vllm:request_time_per_output_token_seconds", _H, "", "Decode time by the tokens after the first, per choice."),
    ("vllm:e2e_request_latency_seconds", _H, "", "From a request's arrival to a choice's last token."),
    ("vllm:request_queue_time_seconds", _H, "", "From the engine's queue to a row."),
    ("vllm:request_inference_time_seconds", _H, "", "From a row to the last token."),
    ("vllm:request_prefill_time_seconds", _H, "", "From a row to the first token."),
    ("vllm:request_decode_time_seconds", _H, "", "From the first token to the last."),
    ("vllm:request_prompt_tokens", _H, "", "Prompt tokens of a choice that ended."),
    ("vllm:request_generation_tokens", _H, "", "Tokens of a choice that ended."),
    ("vllm:request_max_num_generation_tokens", _H, "", "Tokens of a request's longest choice."),
    ("vllm:request_params_n", _H, "", "Choices asked for."),
    ("vllm:request_params_max_tokens", _H, "", "Most tokens asked for."),
    ("vllm:iteration_tokens_total", _H, "", "Prompt tokens fed and tokens committed by a step."),
    # Speculation.
    (
        "paradraft_spec_refused_drafts",
        _C,
        "position",
        "Drafts whose walk ended at a position because no node was right.",
    ),
    ("paradraft_spec_source_draft_tokens", _C, "source", "Draft tokens verified that a source proposed."),
    ("paradraft_spec_source_accepted_tokens", _C, "source", "Of these, accepted."),
    ("paradraft_spec_wasted_draft_tokens", _C, "reason", "Draft tokens that saved no pass, by why."),
    ("paradraft_spec_gamma", _H, "", "Draft depth planned for a decoding row in a step; 0 is plain decoding."),
    ("paradraft_spec_disabled_steps", _C, "reason", "Passes of decoding rows without a draft, by why."),
    ("paradraft_spec_request_acceptance_rate", _H, "", "Accepted by verified draft tokens of a choice with drafts."),
    ("paradraft_spec_request_path_acceptance_rate", _H, "", "Acceptance along the path of a choice with drafts."),
    ("paradraft_spec_acceptance_deviation", _G, "", "ARSD: deviation of acceptance along paths in the last minute."),
    ("paradraft_spec_decode_seconds", _C, "", "Seconds of steps without prompts."),
    ("paradraft_spec_plain_decode_seconds", _C, "", "Seconds their tokens would have taken without drafts."),
    ("paradraft_plain_pass_seconds", _G, "", "A row's pass without drafts, as measured; NaN until it is known."),
    ("paradraft_class_requests", _C, "prompt_class", "Requests of a class of prompts."),
    ("paradraft_class_draft_tokens", _C, "prompt_class", "Draft tokens verified, of a class's choices that ended."),
    ("paradraft_class_accepted_tokens", _C, "prompt_class", "Of these, accepted."),
    ("paradraft_class_refused_drafts", _C, "prompt_class", "Their drafts with no right node to go on with."),
    ("paradraft_class_acceptance_deviation", _G, "prompt_class", "ARSD of a class."),
    # Drafter.
    ("paradraft_drafter_latency_seconds", _H, "", "Drafting for a step in which a row might draft."),
    ("paradraft_drafter_faults", _C, "", "Failures of the drafter and its sources."),
    ("paradraft_drafter_faults_by_kind", _C, "kind", "The same by kind; a kind appears with its first failure."),
    ("paradraft_drafter_pauses", _C, "", "Times the drafter or a source was left out after failures in a row."),
    ("paradraft_drafter_resting", _G, "", "Whether the drafter as a whole is left out now."),
    # Engine and cache.
    ("paradraft_engine_steps", _C, "", "Steps."),
    ("paradraft_step_seconds", _H, "", "A whole step."),
    ("paradraft_step_phase_seconds", _H, "phase", "A verb of a step."),
    ("paradraft_kv_pages", _G, "state", "Pages of the cache."),
    (
        "paradraft_kv_positions_read",
        _C,
        "kind",
        "Cache positions that rows read: in pages taken over by prefix, or own.",
    ),
    ("paradraft_kv_cache_reuse_ratio", _G, "", "CRR of the last step."),
    ("paradraft_engine_up", _G, "", "Whether the engine's thread or process runs."),
    ("paradraft_engine_has_work", _G, "", "Whether a request runs or waits."),
    ("paradraft_engine_seconds_since_progress", _G, "", "Since the last step ended; 0 while idle."),
    ("paradraft_engine_last_progress_timestamp_seconds", _G, "", "When that was, in seconds since 1970."),
    ("paradraft_requests_rejected", _C, "status,reason", "Requests answered with an error before they were queued."),
    ("paradraft_build_info", _G, "version,drafter,rule,exact,dtype,runner", "1, with what runs as labels."),
)
METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        name: Metric(name=name, kind=kind, labels=tuple(filter(None, labels.split(","))), meaning=meaning)
        for name, kind, labels, meaning in _ROWS
    }
)
