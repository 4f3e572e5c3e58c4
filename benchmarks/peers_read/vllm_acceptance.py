"""Runs in vLLM's own environment: answers prompts greedily with one of our drafters and counts what was accepted.

    python vllm_acceptance.py job.json result.json

job: target and drafter (folders), method, num_tokens per round, parallel, dtype, prompts (lists of ids), max_tokens.
result: drafts (rounds), accepted by position, and the ids of the answers.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

# On processors vLLM compiles a pass, and DFlash's cannot be; one thread a process keeps a shared machine usable.
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def main(job_file: str, result_file: str) -> None:
    from vllm import LLM, SamplingParams

    job = json.loads(Path(job_file).read_text())
    speculation = {
        "method": job["method"],
        "model": job["drafter"],
        "num_speculative_tokens": job["num_tokens"],
        **({"parallel_drafting": True} if job["parallel"] else {}),
    }
    llm = LLM(
        model=job["target"],
        dtype=job["dtype"],
        speculative_config=speculation,
        enforce_eager=True,
        max_model_len=job["max_model_len"],
        max_num_seqs=1,
        disable_log_stats=False,
        enable_prefix_caching=False,
        seed=0,
    )
    params = SamplingParams(temperature=0.0, max_tokens=job["max_tokens"], ignore_eos=True, detokenize=False)
    answers = llm.generate([{"prompt_token_ids": ids} for ids in job["prompts"]], params, use_tqdm=False)
    counts: dict[str, object] = {}
    for metric in llm.get_metrics():
        if metric.name.startswith("vllm:spec_decode"):
            counts[metric.name.removeprefix("vllm:spec_decode_")] = getattr(metric, "value", None) or list(
                getattr(metric, "values", [])
            )
    result = {"counts": counts, "answers": [list(answer.outputs[0].token_ids) for answer in answers]}
    Path(result_file).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
