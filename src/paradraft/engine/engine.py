"""The engine: takes requests, steps, and ends every one of them with an event."""

from __future__ import annotations

from dataclasses import dataclass, field

from paradraft.core.arrays import ints
from paradraft.core.errors import ParadraftError, RequestRefused
from paradraft.core.events import TokenEvent
from paradraft.core.faults import Walled
from paradraft.core.grammar import Grammars
from paradraft.core.ports import Acceptor, Clock, Drafter, Target, Tokenizer
from paradraft.core.records import FinishReason
from paradraft.core.requests import Request
from paradraft.core.serving import EngineSnapshot
from paradraft.engine.choosy import ChoosyDrafter, check_sources
from paradraft.engine.commit import Committer, Outcome
from paradraft.engine.counting import CountedDrafter
from paradraft.engine.embedding import Embedder
from paradraft.engine.generation import Generation
from paradraft.engine.intake import check_request, check_room, sampling_of
from paradraft.engine.rows import Rows
from paradraft.engine.snapshot import take_snapshot
from paradraft.engine.statistics import Totals
from paradraft.engine.step import Step
from paradraft.engine.timing import TimedAcceptor, TimedDrafter, TimedTarget
from paradraft.kv.pages import PageCache
from paradraft.scheduling.calibration import Calibration, OnlineCalibration
from paradraft.scheduling.costs import DraftCosts, PassCosts
from paradraft.scheduling.length import AdaptiveLength, FixedLength, LengthPolicy, PricedLength
from paradraft.scheduling.pruning import PrunedDrafter
from paradraft.scheduling.scheduler import Scheduler
from paradraft.scheduling.switch import BreakEven
from paradraft.scheduling.verification import ScheduledDrafter, VerificationBudget


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineOptions:
    """How an engine schedules. `longest` bounds prompt and answer of one row together.

    is_adaptive: draft lengths follow measured costs and acceptance; node_price: what a drafted node has to be worth
    where they do not, in plain passes; schedules_verification: where they do, also which drafted nodes are verified, by
    confidence, which starts calibrated as in `calibration`.
    """

    max_rows: int = 8
    longest: int = 2048
    max_step_tokens: int = 512
    gamma: int = 7
    nodes: int = 7
    is_adaptive: bool = True
    node_price: float = 0.05
    schedules_verification: bool = True
    calibration: Calibration = field(default_factory=Calibration)
    reuses_prefixes: bool = True


class Engine:
    """Continuous batching over the five-verb step. Not thread-safe: one caller adds, steps and aborts."""

    def __init__(
        self,
        *,
        target: Target,
        drafter: Drafter,
        acceptor: Acceptor,
        tokenizer: Tokenizer,
        pages: PageCache,
        options: EngineOptions,
        clock: Clock,
        grammars: Grammars | None = None,
    ) -> None:
        check_room(options.longest, pages)
        self.options = options
        self.limits = target.limits
        self.totals = Totals()
        self.drafter = drafter
        self.pages = pages
        self._grammars = grammars
        self.pruned = None if grammars is None else PrunedDrafter(drafter, grammars)
        self._tokenizer = tokenizer
        self._clock = clock
        self._costs = PassCosts()
        self._draft_costs = DraftCosts()
        self.verification = VerificationBudget(costs=self._costs, calibration=OnlineCalibration(options.calibration))
        self.embedder = Embedder(target, pages, longest=options.longest, max_tokens=options.max_step_tokens)
        self._late: list[TokenEvent] = []  # last events of rows whose step was interrupted
        self._rows = Rows(
            max_rows=options.max_rows,
            pages=pages,
            on_release=self._forget,
            reuses_prefixes=options.reuses_prefixes,
        )
        timed_target = TimedTarget(target, clock=clock, totals=self.totals, costs=self._costs)
        self._step = Step(
            scheduler=self._build_scheduler(),
            rows=self._rows,
            drafter=self._measured(drafter),
            target=timed_target,
            acceptor=TimedAcceptor(acceptor, clock=clock, totals=self.totals),
            committer=Committer(rows=self._rows, target=timed_target, gamma=options.gamma),
        )

    @property
    def has_work(self) -> bool:
        """Whether a request runs or waits."""
        return len(self._rows) > 0 or len(self._late) > 0 or self.embedder.has_work

    def check(self, request: Request) -> None:
        """Raise RequestRefused if the request can never be served. May be called from any thread.

        A grammar that is new is compiled here, which can take up to a second: called beforehand in a thread of its own,
        it leaves steps alone, and `add` finds the grammar ready.
        """
        check_request(request, self.limits, self.options.longest)
        check_sources(request.params, self.drafter.needs)
        sampling = sampling_of(request, 0, self._tokenizer.eos_ids)
        self._step.acceptor.check(sampling, self.limits.vocab_size)

    def add(self, request: Request) -> None:
        """Queue a request; raises RequestRefused if it can never be served or its id is in use."""
        self.check(request)
        if self.num_choices(request.request_id):
            raise RequestRefused(
                f"The request id {request.request_id!r} is in use.", remedy="Give each request an id of its own."
            )
        for choice in range(request.params.n):
            self._rows.enqueue(self._generation(request, choice))

    def num_choices(self, request_id: str) -> int:
        """Return how many choices of a request have not had their last event."""
        return self._rows.count(request_id) + sum(event.request_id == request_id for event in self._late)

    def step(self) -> list[TokenEvent]:
        """Run one step and return what became known; nothing if there is no work."""
        if self._late:
            late, self._late = self._late, []
            return late
        if self.embedder.has_work:
            self.embedder.run(is_alone=not len(self._rows))
        begun = self._clock()
        try:
            outcomes = self._step.run()
        except (ParadraftError, RuntimeError, ValueError, ArithmeticError, MemoryError) as error:
            # The pass as a whole failed, so no row of it has a result. Waiting requests go on with the next step.
            failed = self._fail_running(f"{type(error).__name__}: {error}")
            if not failed:
                raise
            return failed
        except BaseException:
            self._late = self._fail_running("The step was interrupted.")
            raise
        self._count_step(outcomes, self._clock() - begun)
        for outcome in outcomes:
            self._settle(outcome)
        return [outcome.event for outcome in outcomes if outcome.event is not None]

    def abort(self, request_id: str) -> list[TokenEvent]:
        """End all choices of a request now and return their last events; unknown ids give none."""
        late = [event for event in self._late if event.request_id == request_id]
        self._late = [event for event in self._late if event.request_id != request_id]
        ended = self._rows.withdraw(request_id)
        ended += [self._rows.release(row.number) for row in self._rows.of_request(request_id)]
        return late + [generation.end(FinishReason.ABORT) for generation in ended]

    def snapshot(self) -> EngineSnapshot:
        """Return what the engine holds now and did since it started; to be asked between steps."""
        return take_snapshot(
            totals=self.totals,
            rows=self._rows,
            pages=self.pages,
            plain_pass_seconds=self._costs.seconds(1),
            drafter=self.drafter,
            num_unverified=self.verification.num_dropped,
            num_pruned=0 if self.pruned is None else self.pruned.num_pruned,
        )

    def _build_scheduler(self) -> Scheduler:
        options, costs = self.options, self._costs
        lengths: LengthPolicy
        if not options.is_adaptive:
            lengths = FixedLength(gamma=options.gamma, nodes=options.nodes, price=options.node_price)
        elif self.drafter.needs.weighs_nodes:
            priced = PricedLength(gamma=options.gamma, nodes=options.nodes, costs=costs)
            lengths = BreakEven(priced, costs=costs, drafting=self._draft_costs)
        else:
            lengths = AdaptiveLength(gamma=options.gamma, nodes=options.nodes, costs=costs, drafting=self._draft_costs)
        return Scheduler(rows=self._rows, lengths=lengths, max_step_tokens=options.max_step_tokens)

    def _measured(self, drafter: Drafter) -> Drafter:
        """Return the drafter timed and counted, cut to what requests allow and, where lengths adapt, to what pays."""
        wall = drafter if isinstance(drafter, Walled) else None
        drafter = ChoosyDrafter(self.pruned or drafter)
        if self.options.is_adaptive and self.options.schedules_verification:
            drafter = ScheduledDrafter(drafter, self.verification)
        timed = TimedDrafter(drafter, clock=self._clock, totals=self.totals, costs=self._draft_costs)
        return CountedDrafter(timed, wall=wall, totals=self.totals)

    def _generation(self, request: Request, choice: int) -> Generation:
        longest = self.options.longest
        return Generation(request, choice, tokenizer=self._tokenizer, longest=longest, clock=self._clock)

    def _count_step(self, outcomes: list[Outcome], seconds: float) -> None:
        totals = self.totals
        totals.add_seconds("step", seconds)
        totals.steps += 1
        totals.cache_reuse_ratio = self.pages.note_step()
        committed = sum([outcome.num_kept for outcome in outcomes])
        prompts = [outcome.num_pending for outcome in outcomes if outcome.feeds_prompt]
        totals.step_tokens.add(sum(prompts) + committed)
        plain_pass = None if prompts or not outcomes else self._costs.seconds(len(outcomes))
        if plain_pass is not None:
            totals.add_decoding(tokens=committed, rows=len(outcomes), seconds=seconds, plain_pass=plain_pass)

    def _settle(self, outcome: Outcome) -> None:
        self.totals.committed += outcome.num_kept
        if outcome.round is not None:
            self.totals.tally.add_round(outcome.round)
            done = outcome.round
            self._step.scheduler.observe(outcome.row, done.num_levels, len(done.path), len(done.node_depths))
        if outcome.has_ended:
            failed = self._rows.release(outcome.row).finish_reason is FinishReason.ERROR
            self.totals.failed += failed
            self.totals.finished += not failed

    def _forget(self, row: int) -> None:
        self._step.drafter.forget(ints([row]))
        if self._grammars is not None:
            self._grammars.forget(ints([row]))
        self._step.scheduler.forget(row)

    def _fail_running(self, error: str) -> list[TokenEvent]:
        failed = [self._rows.release(need.row) for need in self._rows.running()]
        # Pages may have been published whose keys and values never arrived.
        self.pages.drop_cached()
        self.totals.failed += len(failed)
        return [generation.end(FinishReason.ERROR, error) for generation in failed]
