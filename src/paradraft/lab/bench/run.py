"""Running a benchmark: warm-up first, then repeats in which the arms take turns on each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from paradraft.core.events import GenerationStats
from paradraft.core.ports import Clock
from paradraft.core.records import FinishReason
from paradraft.lab.bench.plan import Arm, BenchPlan, Cell, cells_of, params_of, turn_order
from paradraft.lab.ports import Progress, unwatched
from paradraft.lab.prompts import PromptSet

_WARM_UP_TOKENS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One cell answered once by one arm."""

    arm: str
    repeat: int
    cell: Cell
    seconds: float
    token_ids: tuple[tuple[int, ...], ...]  # by prompt of the cell
    stats: tuple[GenerationStats, ...]
    num_failed: int
    verb_seconds: dict[str, float]

    @property
    def num_tokens(self) -> int:
        """Return the number of tokens of all answers."""
        return sum(map(len, self.token_ids))


def run_bench(
    arms: Sequence[Arm],
    prompt_set: PromptSet,
    plan: BenchPlan,
    *,
    clock: Clock = perf_counter,
    progress: Progress = unwatched,
) -> list[Run]:
    """Measure every arm on every cell in every repeat; the runs come in the order in which they were made."""
    cells = cells_of(plan, prompt_set)
    total = plan.repeats * len(cells) * len(arms)
    _warm_up(arms, prompt_set, plan, clock)
    runs: list[Run] = []
    for repeat in range(plan.repeats):
        for turn, cell in enumerate(cells, start=repeat):
            for arm in turn_order(arms, turn):
                runs.append(_run_cell(arm, prompt_set, plan, cell, repeat, clock))
                progress(len(runs), total)
    return runs


def _warm_up(arms: Sequence[Arm], prompt_set: PromptSet, plan: BenchPlan, clock: Clock) -> None:
    for arm in arms:
        for rows in plan.concurrency:
            length = min(_WARM_UP_TOKENS, plan.max_tokens)
            cell = Cell(concurrency=rows, max_tokens=length, prompts=tuple(range(rows)))
            _run_cell(arm, prompt_set, plan, cell, 0, clock)


def _run_cell(arm: Arm, prompt_set: PromptSet, plan: BenchPlan, cell: Cell, repeat: int, clock: Clock) -> Run:
    prompts = [list(prompt_set.prompts[index].token_ids) for index in cell.prompts]
    params = params_of(arm, plan, cell)
    verbs_before = dict(arm.verb_seconds()) if arm.verb_seconds else {}
    start = clock()
    results = arm.speaker.generate(prompts, params)
    seconds = clock() - start
    verbs_after = arm.verb_seconds() if arm.verb_seconds else {}
    choices = [result.choices[0] for result in results]
    return Run(
        arm=arm.name,
        repeat=repeat,
        cell=cell,
        seconds=seconds,
        token_ids=tuple(choice.token_ids for choice in choices),
        stats=tuple(choice.stats for choice in choices),
        num_failed=sum(choice.finish_reason in (FinishReason.ERROR, FinishReason.ABORT) for choice in choices),
        verb_seconds={verb: spent - verbs_before.get(verb, 0.0) for verb, spent in verbs_after.items()},
    )
