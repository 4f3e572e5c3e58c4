"""The rows of the batch: who waits, who runs, and what each row's pages hold. The only owner of row state."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from paradraft.core.arrays import ints, join, starts_of
from paradraft.core.errors import CapacityError
from paradraft.core.records import Batch, Plan
from paradraft.core.requests import may_draft
from paradraft.engine.generation import Generation
from paradraft.engine.statistics import Admissions
from paradraft.kv.lease import Lease
from paradraft.kv.pages import PageCache
from paradraft.scheduling.ports import RowNeed

PROMPT_LOGPROBS_CHUNK = 128  # prompt logits are kept for a whole chunk: 25 MB at a vocabulary of 49,152


@dataclass(slots=True)
class Row:
    """A permanent place in the batch and what occupies it."""

    number: int
    generation: Generation
    lease: Lease


class Rows:
    """Implements the scheduling port over generations and page leases.

    on_release is told of every row that is freed, whatever the cause, before its number can be used again.
    """

    def __init__(
        self, *, max_rows: int, pages: PageCache, on_release: Callable[[int], None], reuses_prefixes: bool = True
    ) -> None:
        self._pages = pages
        self._on_release = on_release
        self._reuses_prefixes = reuses_prefixes
        self._free = list(range(max_rows - 1, -1, -1))
        self._running: dict[int, Row] = {}  # in order of admission
        self._waiting: deque[Generation] = deque()
        self._live: Counter[str] = Counter()  # choices by request that run or wait
        self._arrivals = 0
        self.admissions = Admissions()

    def __len__(self) -> int:
        """Return the number of choices that run or wait."""
        return len(self._running) + len(self._waiting)

    @property
    def num_running(self) -> int:
        """Return the number of choices that have a row."""
        return len(self._running)

    @property
    def num_admissible(self) -> int:
        """Return how many waiting choices would find a free row."""
        return min(len(self._waiting), len(self._free))

    def enqueue(self, generation: Generation) -> None:
        """Put a new choice at the end of the queue."""
        generation.arrival = self._arrivals
        self._arrivals += 1
        self._live[generation.request.request_id] += 1
        self._waiting.append(generation)

    def running(self) -> Sequence[RowNeed]:
        """Return the running rows, oldest request first."""
        ordered = sorted(self._running.values(), key=lambda row: row.generation.arrival)
        return [_need_of(row) for row in ordered]

    def admit(self) -> RowNeed | None:
        """Give the head of the queue a row with pages for all its known tokens, or return None if it has to wait."""
        if not self._waiting or not self._free or self._waits_for_twin(self._waiting[0]):
            return None
        generation = self._waiting[0]
        lease = self._open(generation)
        if lease is None:
            return None
        self._waiting.popleft()
        row = Row(number=self._free.pop(), generation=generation, lease=lease)
        self._running[row.number] = row
        recomputed = sum(position >= lease.committed for position in generation.drafted_at)
        generation.tally.add_admission(cached=lease.committed, recomputed=recomputed)
        self._count_in(generation, lease.committed, recomputed)
        return _need_of(row)

    def reserve(self, row: int, length: int) -> bool:
        """Make the row's page table cover this many positions; False if pages are short."""
        try:
            self._running[row].lease.reserve(length)
        except CapacityError:
            return False
        return True

    def preempt(self, row: int) -> None:
        """Release the row; its generation waits at the head of the queue with all it has produced."""
        generation = self.release(row)
        generation.tally.add_preemption()
        self.admissions.preemptions += 1
        self._live[generation.request.request_id] += 1
        self._waiting.appendleft(generation)

    def release(self, row: int) -> Generation:
        """Give the row's pages and number back and return what occupied it."""
        freed = self._running.pop(row)
        freed.lease.close()
        self._on_release(row)
        self._free.append(row)
        self._count_out(freed.generation)
        return freed.generation

    def row(self, number: int) -> Row:
        """Return a running row."""
        return self._running[number]

    def of_request(self, request_id: str) -> Iterator[Row]:
        """Yield the running rows of a request."""
        yield from [row for row in self._running.values() if row.generation.request.request_id == request_id]

    def count(self, request_id: str) -> int:
        """Return how many choices of a request run or wait."""
        return self._live.get(request_id, 0)

    def withdraw(self, request_id: str) -> list[Generation]:
        """Take a request's choices out of the queue and return them."""
        gone = [waiting for waiting in self._waiting if waiting.request.request_id == request_id]
        if gone:
            self._waiting = deque(waiting for waiting in self._waiting if waiting.request.request_id != request_id)
        for generation in gone:
            self._count_out(generation)
        return gone

    def gather(self, plan: Plan) -> Batch:
        """Return the batch of a plan; each row's private slice is staged for its pending tokens and nodes."""
        rows = [self._running[number] for number in plan.rows.tolist()]
        counts = plan.num_pending.tolist()
        for row, count, nodes in zip(rows, counts, plan.num_nodes.tolist(), strict=True):
            row.lease.stage(count + nodes)
        committed = [row.lease.committed for row in rows]
        tables = [row.lease.page_table for row in rows]
        history = tuple(row.generation.tokens for row in rows)
        pending = [known[at : at + count] for known, at, count in zip(history, committed, counts, strict=True)]
        return Batch(
            rows=plan.rows,
            starts=starts_of(counts),
            tokens=join(pending),
            context_len=ints(committed),
            num_scored=ints([_num_scored(row, count) for row, count in zip(rows, counts, strict=True)]),
            page_starts=starts_of([len(table) for table in tables]),
            pages=join(tables),
            page_size=self._pages.page_size,
            history=history,
            sampling=tuple(row.generation.sampling for row in rows),
        )

    def _open(self, generation: Generation) -> Lease | None:
        """Return pages for the known tokens and the next one; None if there are not enough.

        Half a prompt's pages would only be lost again to older rows, and a preemption recomputes.
        """
        reuse = self._reuses_prefixes and not generation.lacks_prompt_logprobs
        salt, room = generation.request.tenant, generation.known_len + 1
        try:
            return self._pages.open(generation.tokens, salt=salt, reuse=reuse, room=room)
        except CapacityError:
            return None

    def _count_in(self, generation: Generation, cached: int, recomputed: int) -> None:
        if generation.watch.note_admission():
            self.admissions.prompt_positions += generation.prompt_len
            self.admissions.cached_positions += cached
        self.admissions.recomputed += recomputed

    def _count_out(self, generation: Generation) -> None:
        request_id = generation.request.request_id
        self._live[request_id] -= 1
        if not self._live[request_id]:
            del self._live[request_id]

    def _waits_for_twin(self, generation: Generation) -> bool:
        """Whether another choice of the same request is still computing the prompt that both will share."""
        if not self._reuses_prefixes or generation.prompt_len <= self._pages.page_size:
            return False
        twins = self.of_request(generation.request.request_id)
        return any(twin.lease.committed < twin.generation.prompt_len for twin in twins)


def _need_of(row: Row) -> RowNeed:
    params = row.generation.request.params
    return RowNeed(
        row=row.number,
        known_len=row.generation.known_len,
        committed=row.lease.committed,
        remaining=row.generation.remaining,
        gamma=params.gamma if may_draft(params) else 0,
        max_chunk=PROMPT_LOGPROBS_CHUNK if row.generation.lacks_prompt_logprobs else 2**31 - 1,
    )


def _num_scored(row: Row, num_pending: int) -> int:
    """Return at how many of its last pending tokens the row needs logits."""
    if row.generation.lacks_prompt_logprobs:
        return num_pending
    return int(row.lease.committed + num_pending == row.generation.known_len)
