"""The fifth verb: what a verdict changes. Tokens go into the answer, nodes into the cache or away."""

from __future__ import annotations

from dataclasses import dataclass

from paradraft.core.arrays import IntArray, ints, join
from paradraft.core.events import TokenEvent, TokenLogprobs
from paradraft.core.ports import Scores, Target
from paradraft.core.records import Batch, FinishReason, Origin, Proposal, Verdict
from paradraft.core.requests import may_draft
from paradraft.engine.generation import Generation
from paradraft.engine.logprobs import logprobs_at
from paradraft.engine.rows import Row, Rows
from paradraft.engine.statistics import Round


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a step did to one row."""

    row: int
    num_pending: int  # tokens it fed
    round: Round | None = None  # None: no token was chosen (a chunk of a prompt, or a failure)
    event: TokenEvent | None = None
    has_ended: bool = False

    @property
    def feeds_prompt(self) -> bool:
        """Whether the row fed a part of its prompt; the last token of one alone looks like decoding."""
        return self.num_pending > 1 or (self.round is None and not self.has_ended)

    @property
    def num_kept(self) -> int:
        """Return the number of tokens that went into the answer."""
        return self.round.num_kept if self.round is not None else 0


class Committer:
    """Applies verdicts. `gamma` is the depth a row may draft when its request names none."""

    def __init__(self, *, rows: Rows, target: Target, gamma: int) -> None:
        self._rows = rows
        self._target = target
        self._gamma = gamma

    def commit(self, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict) -> list[Outcome]:
        """Take each row's tokens, settle its slice of the cache and return what happened, row by row."""
        failures = dict(verdict.failures)
        outcomes: list[Outcome] = []
        sources: list[IntArray] = []
        destinations: list[IntArray] = []
        for index, number in enumerate(batch.rows.tolist()):
            row = self._rows.row(number)
            if index in failures:
                outcomes.append(_failure(row, batch.pending_len(index), failures[index]))
                continue
            _take_prompt_logprobs(row.generation, batch, scores, index)
            outcome = self._take_tokens(row, batch, proposal, scores, verdict, index)
            path = verdict.path_of(index)[: outcome.num_kept]
            moves = row.lease.commit(batch.pending_len(index), path, row.generation.tokens)
            if len(moves.sources):
                sources.append(moves.sources)
                destinations.append(moves.destinations)
            outcomes.append(outcome)
        if sources:
            self._target.move(join(sources), join(destinations))
        return outcomes

    def _take_tokens(
        self, row: Row, batch: Batch, proposal: Proposal, scores: Scores, verdict: Verdict, index: int
    ) -> Outcome:
        num_pending = batch.pending_len(index)
        if not batch.is_complete(index):
            return Outcome(row=row.number, num_pending=num_pending)
        generation = row.generation
        tokens, path = verdict.tokens_of(index), verdict.path_of(index)
        room = generation.remaining
        logprobs = _logprobs(generation, batch, scores, tokens, path, index)
        origins = verdict.origins_of(index)
        event = generation.take(tokens, origins, logprobs)
        kept = len(event.token_ids)
        low, high = int(proposal.starts[index]), int(proposal.starts[index + 1])
        is_decoding = num_pending == 1
        done = Round(
            node_depths=tuple(proposal.depths[low:high].tolist()),
            node_sources=tuple(proposal.sources[low:high].tolist()),
            path=tuple(path.tolist()),
            num_kept=kept,
            is_counted=is_decoding and kept == len(tokens) and room > self._reach(generation),
            is_refused=int(origins[-1]) == Origin.RECOVERED,
        )
        generation.tally.add_round(done)
        return Outcome(
            row=row.number,
            num_pending=num_pending,
            round=done,
            event=generation.counted(event),
            has_ended=generation.finish_reason is not None,
        )

    def _reach(self, generation: Generation) -> int:
        """Return the depth the row would draft if no limit were near."""
        params = generation.request.params
        if not may_draft(params):
            return 0
        return self._gamma if params.gamma is None else params.gamma


def _logprobs(
    generation: Generation, batch: Batch, scores: Scores, tokens: IntArray, path: IntArray, index: int
) -> list[TokenLogprobs]:
    """Return the raw log-probabilities of the tokens to commit, [] where none are asked for."""
    count = generation.request.params.logprobs
    if count is None:
        return []
    last = int(scores.starts[index]) + int(batch.num_scored[index]) - 1
    places = [last, *(last + 1 + path).tolist()]
    return [logprobs_at(scores, place, token, count) for place, token in zip(places, tokens.tolist(), strict=True)]


def _take_prompt_logprobs(generation: Generation, batch: Batch, scores: Scores, index: int) -> None:
    """Add the log-probabilities of the prompt tokens that this pass predicted."""
    if not generation.lacks_prompt_logprobs:
        return
    count = generation.request.params.prompt_logprobs or 0
    begin, first = int(batch.context_len[index]), int(scores.starts[index])
    end = min(begin + batch.pending_len(index), generation.prompt_len - 1)
    # After a preemption the prompt comes again from its beginning.
    known = len(generation.prompt_logprobs) - 1
    generation.prompt_logprobs.extend(
        logprobs_at(scores, first + at - begin, int(generation.tokens[at + 1]), count)
        for at in range(max(begin, known), end)
    )


def _failure(row: Row, num_pending: int, reason: str) -> Outcome:
    row.lease.commit(0, ints([]), row.generation.tokens)
    event = row.generation.end(FinishReason.ERROR, reason)
    return Outcome(row=row.number, num_pending=num_pending, event=event, has_ended=True)
