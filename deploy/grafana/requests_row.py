"""The row of requests: how many, how long, and what they wait for."""

from __future__ import annotations

from panel import LATENCY_COLOURS, TOKENS_PER_SECOND, Panel
from queries import mean, quantiles, total

REQUESTS = (
    Panel(
        title="Requests in the engine",
        says="Choices that have a row, and choices in the queue.",
        queries={
            "running": "sum (vllm:num_requests_running{$m})",
            "waiting": "sum (vllm:num_requests_waiting{$m})",
        },
        colours={"running": "good", "waiting": "orange"},
    ),
    Panel(
        title="Choices that ended",
        says="A second, by why they ended.",
        queries={"{{finished_reason}}": total("vllm:request_success_total", by="finished_reason")},
        unit="reqps",
        is_stacked=True,
        colours={"stop": "good", "length": "calm", "abort": "orange", "error": "bad"},
    ),
    Panel(
        title="Refused requests",
        says="Answered with an error before they were queued.",
        queries={"{{status}} {{reason}}": total("paradraft_requests_rejected_total", by="status, reason")},
        unit="reqps",
        is_stacked=True,
    ),
    Panel(
        title="Time to first token",
        says="From a request's arrival.",
        queries=quantiles("vllm:time_to_first_token_seconds"),
        unit="s",
        colours=LATENCY_COLOURS,
    ),
    Panel(
        title="Time per token",
        says="Decode time by tokens, per choice. Between steps: what a reader sees, one burst of tokens after another.",
        queries={
            **quantiles("vllm:request_time_per_output_token_seconds", shares=(0.5, 0.99)),
            **quantiles("vllm:inter_token_latency_seconds", "between steps ", shares=(0.5, 0.99)),
        },
        unit="s",
        colours={"P50": "good", "P99": "bad", "between steps P50": "cyan", "between steps P99": "orange"},
    ),
    Panel(
        title="Time of a whole answer",
        says="From a request's arrival to the last token of a choice.",
        queries=quantiles("vllm:e2e_request_latency_seconds"),
        unit="s",
        colours=LATENCY_COLOURS,
    ),
    Panel(
        title="Where an answer's time goes",
        says="Means per choice: in the queue, reading the prompt, writing.",
        queries={
            "queue": mean("vllm:request_queue_time_seconds"),
            "prompt": mean("vllm:request_prefill_time_seconds"),
            "answer": mean("vllm:request_decode_time_seconds"),
        },
        unit="s",
        is_stacked=True,
        colours={"queue": "orange", "prompt": "calm", "answer": "good"},
    ),
    Panel(
        title="Tokens a second",
        says="Prompt tokens admitted, of these found in the prefix cache, and tokens committed to answers.",
        queries={
            "prompts": total("vllm:prompt_tokens_total"),
            "prompts from the cache": total("vllm:prompt_tokens_cached_total"),
            "answers": total("vllm:generation_tokens_total"),
        },
        unit=TOKENS_PER_SECOND,
        colours={"prompts": "calm", "prompts from the cache": "cyan", "answers": "good"},
    ),
    Panel(
        title="Length of requests",
        says="Medians and P95 of prompt and answer, in tokens.",
        queries={
            **quantiles("vllm:request_prompt_tokens", "prompt ", shares=(0.5, 0.95)),
            **quantiles("vllm:request_generation_tokens", "answer ", shares=(0.5, 0.95)),
        },
        colours={"prompt P50": "calm", "prompt P95": "cyan", "answer P50": "good", "answer P95": "warn"},
    ),
)
