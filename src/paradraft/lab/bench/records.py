"""The result of a benchmark as records; their fields are the keys of its JSON."""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.lab.bench.compare_arms import Speedup
from paradraft.lab.bench.measures import Latency, Spread, Steps
from paradraft.lab.bench.plan import BenchPlan
from paradraft.lab.near_ties import Difference
from paradraft.lab.provenance import Provenance

FORMAT = "paradraft-bench-1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """Some of an arm's runs: a category, or an output length."""

    name: str
    tokens: int
    seconds: float
    tokens_per_second: Spread
    tau: float
    acceptance_rate: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmReport:
    """One arm at one concurrency. Figures are over the runs at full length unless the name says otherwise."""

    name: str
    concurrency: int
    gamma: int | None
    tokens: int
    seconds: float
    tokens_per_second: Spread
    requests_per_second: float
    latency: Latency
    tau: float
    acceptance_rate: float
    effective_acceptance_rate: float
    acceptance_by_position: tuple[float, ...]
    mean_draft_len: float
    steps: Steps
    break_even_tau: float | None  # tau at which this arm would be as fast as plain decoding
    preemptions: int
    by_output_length: tuple[Slice, ...]
    by_category: tuple[Slice, ...]  # with one row at a time only
    identical_to_plain: bool
    differences: tuple[Difference, ...]
    seconds_by_verb: dict[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptTime:
    """Prompt processing of one arm: seconds until one token is out, per repeat."""

    arm: str
    prompt_tokens: int
    seconds: Spread


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchReport:
    """A whole benchmark."""

    format: str
    provenance: Provenance
    plan: BenchPlan
    prompt_set: str
    prompt_sha256: str
    prompt_ids: tuple[str, ...]
    repeated_prompts: tuple[str, ...]
    near_tie_bound: float
    arms: tuple[ArmReport, ...]
    speedups: tuple[Speedup, ...]
    prompt_processing: tuple[PromptTime, ...]
    warnings: tuple[str, ...]
