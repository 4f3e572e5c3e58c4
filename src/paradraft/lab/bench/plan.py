"""What a benchmark runs: arms, cells, and the order in which the arms take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from paradraft.core.errors import ConfigError
from paradraft.core.sampling import SamplingParams
from paradraft.lab.ports import Speaker
from paradraft.lab.prompts import PromptSet

PLAIN = "plain"
CONTROL = "control"  # plain decoding a second time: what noise alone does


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One way of answering, measured beside the others."""

    name: str
    speaker: Speaker
    gamma: int | None = None  # most draft tokens per step and path; None: the engine's own choice
    is_speculative: bool = True
    verb_seconds: Callable[[], Mapping[str, float]] | None = None  # running totals by verb of the step


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchPlan:
    """How much is measured. `short_lengths` are output lengths measured besides max_tokens, one row at a time."""

    max_tokens: int
    concurrency: tuple[int, ...] = (1,)
    repeats: int = 5
    temperature: float = 0.0
    seed: int = 0
    short_lengths: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """Prompts that are answered together."""

    concurrency: int
    max_tokens: int
    prompts: tuple[int, ...]  # indices into the prompt set


def cells_of(plan: BenchPlan, prompt_set: PromptSet) -> list[Cell]:
    """Return the cells of one repeat; raise ConfigError where there are fewer prompts than rows.

    With several rows, prompts that do not fill a last cell are left out, so that every cell has the same load.
    """
    total = len(prompt_set.prompts)
    if total < max(plan.concurrency):
        raise ConfigError(
            f"concurrency {max(plan.concurrency)} needs as many prompts, and there are {total} different ones.",
            remedy="Give more prompts, raise --limit, or lower --concurrency.",
        )
    lengths = [(length, 1) for length in plan.short_lengths if length < plan.max_tokens]
    lengths += [(plan.max_tokens, rows) for rows in plan.concurrency]
    return [
        Cell(concurrency=rows, max_tokens=length, prompts=tuple(range(first, first + rows)))
        for length, rows in lengths
        for first in range(0, total - rows + 1, rows)
    ]


def turn_order(arms: Sequence[Arm], turn: int) -> list[Arm]:
    """Return the arms forwards on even turns and backwards on odd ones: A B, then B A, so that drift cancels."""
    return list(arms) if turn % 2 == 0 else list(reversed(arms))


def params_of(arm: Arm, plan: BenchPlan, cell: Cell) -> list[SamplingParams]:
    """Return the parameters of each prompt of a cell for an arm."""
    return [
        replace(
            sampling_of(plan, index, cell.max_tokens),
            gamma=arm.gamma if arm.is_speculative else None,
            speculate=arm.is_speculative,
        )
        for index in cell.prompts
    ]


def sampling_of(plan: BenchPlan, index: int, max_tokens: int) -> SamplingParams:
    """Return what all arms share for a prompt: equal lengths forced, and a seed of its own."""
    return SamplingParams(temperature=plan.temperature, seed=plan.seed + index, max_tokens=max_tokens, ignore_eos=True)
