"""Captures a target: asks it prompts in the way it is served, and keeps its answers and its taps as shards.

The work falls into units, each a function of the plan alone: a file of own turns, or a shard of conversations. A run
does the units that are missing, so it may be killed at any moment, and several may share the work.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from paradraft.core.arrays import ints
from paradraft.core.errors import ModelError
from paradraft.core.records import FinishReason
from paradraft.core.sampling import SamplingParams
from paradraft.engine.results import GenerationResult
from paradraft.train.manifest import read_manifest
from paradraft.train.overlap import Overlap
from paradraft.train.plan import CapturePlan
from paradraft.train.ports import Progress, Speaker, unwatched
from paradraft.train.prompts import select
from paradraft.train.recorder import Recorder
from paradraft.train.shard_files import Captured
from paradraft.train.shards import ShardWriter
from paradraft.train.turns import OwnTurns
from paradraft.train.units import Share

_ANSWERS = 1 << 40  # seeds of answers begin here, so that no own turn has drawn with one of them
_MOST_BROKEN = 0.5  # share of a unit without usable taps at which something is wrong with the target


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureReport:
    """What a run did, and what the folder holds now. left_out counts conversations by reason."""

    num_sequences: int
    num_tokens: int  # prompts included
    taps_bytes: int
    num_answered: int  # answer tokens of this run
    seconds: float
    left_out: Mapping[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Question:
    """A prompt as it is served."""

    ids: list[int]
    source: str
    seed: int


class Capture:
    """One run over a plan; the writer's folder is the plan's."""

    def __init__(
        self,
        plan: CapturePlan,
        speaker: Speaker,
        recorder: Recorder | None,
        writer: ShardWriter,
        share: Share | None = None,
    ) -> None:
        """Take the engine that answers, and the recorder that is its drafter; None: tokens only."""
        self._plan, self._speaker, self._recorder, self._writer = plan, speaker, recorder, writer
        self._share = share or Share()
        self._turns = OwnTurns(writer.folder / "turns", plan.options)
        self._left_out: Counter[str] = Counter()
        self._num_answered = 0
        self._num_questions = 0

    def write_turns(self, progress: Progress = unwatched) -> None:
        """Let the target write the turns that are missing, as the first part of the work; progress counts files."""
        self._turns.complete(self._speaker, self._share, progress)

    def run(self, progress: Progress = unwatched) -> CaptureReport:
        """Do all that is missing; progress counts shards.

        Raises ModelError for a full disk and for taps that are not numbers; finished units stay.
        """
        begun = time.perf_counter()
        questions = self._questions()
        self._num_questions = len(questions)
        size = self._plan.options.unit
        damaged = self._writer.listed() - self._writer.finished()
        count = -(-len(questions) // size)
        for number in self._share.missing(count, lambda at: at in self._writer.listed() - damaged, progress):
            self._writer.write(number, self._answer(questions[number * size : (number + 1) * size]))
        return self._report(time.perf_counter() - begun)

    def projected_bytes(self) -> int | None:
        """Return what taps and ids will take in the end, by the conversations there are; None if there are none."""
        manifest = read_manifest(self._writer.folder)
        count = sum(shard.num_sequences for shard in manifest.shards)
        if not count:
            return None
        return manifest.num_tokens * self._num_questions // count * self._plan.bytes_per_token

    def _questions(self) -> list[_Question]:
        """Return all prompts in the order of their shards; the same for every run of the plan."""
        options = self._plan.options
        turns = self._turns.complete(self._speaker, self._share, unwatched)
        self._left_out = Counter({"unfit own turns": options.own_turns - len(turns)})
        tasks, left_out = select([*self._plan.tasks, *turns], Overlap(self._plan.held_out), seed=options.seed)
        self._left_out.update(left_out)
        encoded = [(task, task.encode(self._speaker.tokenizer)) for task in tasks]
        fitting = [(task, ids) for task, ids in encoded if len(ids) <= options.max_prompt_len]
        self._left_out["too long"] = len(encoded) - len(fitting)
        first = options.seed + _ANSWERS
        return [_Question(ids=ids, source=task.source, seed=first + at) for at, (task, ids) in enumerate(fitting)]

    def _answer(self, questions: Sequence[_Question]) -> list[Captured]:
        options = self._plan.options
        params = [
            SamplingParams(temperature=options.temperature, max_tokens=options.max_tokens, seed=question.seed)
            for question in questions
        ]
        with self._recorder.recording() if self._recorder else nullcontext():
            results = self._speaker.generate([question.ids for question in questions], params)
            pairs = zip(questions, results, strict=True)
            captured = [found for question, result in pairs if (found := self._captured(question, result))]
        self._check_health(len(captured), results)
        self._num_answered += sum(len(each.ids) - each.prompt_len for each in captured)
        return captured

    def _captured(self, question: _Question, result: GenerationResult) -> Captured | None:
        [choice] = result.choices
        if choice.finish_reason not in (FinishReason.STOP, FinishReason.LENGTH):
            self._left_out["failed"] += 1
            return None
        ids = ints([*question.ids, *choice.token_ids])
        taps = self._recorder.take(question.seed, len(ids)) if self._recorder else None
        if self._recorder and taps is None:
            self._left_out["not finite"] += 1
            return None
        return Captured(ids=ids, prompt_len=len(question.ids), taps=taps, source=question.source)

    def _check_health(self, num_kept: int, results: Sequence[GenerationResult]) -> None:
        """Raise ModelError if most of a unit is lost, because then the rest will be too."""
        if num_kept >= (1.0 - _MOST_BROKEN) * len(results):
            return
        said = next((choice.error for result in results for choice in result.choices if choice.error), None)
        lost = f"{len(results) - num_kept} of {len(results)} conversations"
        raise ModelError(
            f"{lost} were lost: {said or 'their taps are not finite'}.",
            remedy="Run the target in fp32, and check it with `paradraft doctor`; what is finished is kept.",
        )

    def _report(self, seconds: float) -> CaptureReport:
        manifest = read_manifest(self._writer.folder)
        return CaptureReport(
            num_sequences=sum(shard.num_sequences for shard in manifest.shards),
            num_tokens=manifest.num_tokens,
            taps_bytes=manifest.taps_bytes,
            num_answered=self._num_answered,
            seconds=seconds,
            left_out={reason: count for reason, count in self._left_out.items() if count},
        )
