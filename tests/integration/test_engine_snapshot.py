"""What an engine tells of itself is what happened, and nothing in it can grow without bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from paradraft.core.events import TokenEvent
from paradraft.core.faults import DrafterFaults
from paradraft.core.ports import Drafter
from paradraft.core.records import Batch, Hindrance, Origin, Plan, Proposal
from paradraft.core.serving import EngineSnapshot
from paradraft.drafters.guard import GuardedDrafter
from paradraft.drafters.merged import MergedDrafter
from paradraft.engine.statistics import Totals
from paradraft.lab.bench.measures import add_stats
from paradraft.scheduling.pruning import PrunedDrafter
from support.engines import GREEDY, LAW, VOCAB, build_engine, request, run
from support.fake_drafters import FakeDrafter, OracleDrafter, RandomTreeDrafter, WrongDrafter
from support.guessing import Said, broken, saying
from support.speakers import ManualClock
from support.stub_target import StubTarget, StubTicket

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
Events = dict[tuple[str, int], list[TokenEvent]]


def several(**options: object) -> tuple[EngineSnapshot, Events]:
    """Run requests of many kinds together and return what the engine and what the events tell."""
    engine = build_engine(RandomTreeDrafter(VOCAB, seed=4, law=LAW), gamma=5, nodes=10, max_step_tokens=20, **options)
    params = [replace(GREEDY, max_tokens=10 + at, n=1 + at % 2, gamma=[None, 3, 0][at % 3]) for at in range(6)]
    events = run(engine, *(request(str(at), PROMPT[: 2 + at], each) for at, each in enumerate(params)))
    return engine.snapshot(), events


def test_an_engine_that_did_nothing_tells_of_nothing() -> None:
    snapshot = build_engine().snapshot()
    assert snapshot.pages_total == 256
    assert (snapshot.running, snapshot.waiting, snapshot.steps, snapshot.committed) == (0, 0, 0, 0)
    assert not snapshot.times
    assert not snapshot.gammas
    assert not snapshot.hindrances
    assert snapshot.plain_pass_seconds is None


def test_running_and_waiting_choices_and_held_pages_are_those_of_now() -> None:
    engine = build_engine(max_rows=2, page_size=4)
    for name in "abc":
        engine.add(request(name, PROMPT, replace(GREEDY, n=2)))
    engine.step()
    engine.step()
    snapshot = engine.snapshot()
    assert (snapshot.running, snapshot.waiting) == (2, 4)
    assert snapshot.pages_held >= 4
    engine.abort("a")
    assert (engine.snapshot().running, engine.snapshot().pages_held) == (0, 0)
    assert snapshot.running == 2


def test_counts_are_the_sums_of_what_the_last_events_tell() -> None:
    snapshot, events = several()
    told = add_stats(found[-1].stats for found in events.values() if found[-1].stats is not None)
    assert snapshot.counts == told
    assert snapshot.committed == sum(len(event.token_ids) for found in events.values() for event in found)
    assert snapshot.prompt_positions == sum(len(PROMPT[: 2 + int(name)]) for name, _ in events)
    assert snapshot.cached_positions == told.cached_prompt_tokens
    assert 0 < snapshot.positions_shared < snapshot.positions_read


def test_preemptions_and_what_they_lost_are_counted_while_requests_run() -> None:
    snapshot, events = several(num_pages=9)
    assert snapshot.counts.preemptions > 0
    assert snapshot.counts.recomputed > 0
    told = add_stats(found[-1].stats for found in events.values() if found[-1].stats is not None)
    assert (snapshot.counts.preemptions, snapshot.counts.recomputed) == (told.preemptions, told.recomputed)
    assert snapshot.prompt_positions == sum(len(PROMPT[: 2 + int(name)]) for name, _ in events)


def test_every_draft_ends_refused_or_with_a_bonus() -> None:
    snapshot, events = several()
    counts = snapshot.counts
    origins = [event.origins[-1] for found in events.values() for event in found if event.origins]
    assert sum(counts.refused_by_depth) >= origins.count(Origin.RECOVERED) > 0
    assert counts.drafted_by_depth[0] - sum(counts.refused_by_depth) >= origins.count(Origin.BONUS) > 0
    assert 0.0 < counts.acceptance_rate < counts.path_acceptance_rate < 1.0


@pytest.mark.parametrize(("drafter", "rate"), [(OracleDrafter(LAW), 1.0), (WrongDrafter(LAW, VOCAB), 0.0)])
def test_paths_are_accepted_always_or_never(drafter: Drafter, rate: float) -> None:
    engine = build_engine(drafter)
    run(engine, request("a", PROMPT))
    counts = engine.snapshot().counts
    assert counts.path_acceptance_rate == rate
    assert counts.refused_by_depth == (() if rate else (counts.drafted_by_depth[0],))


def test_each_pass_of_a_decoding_row_is_counted_once_by_its_depth() -> None:
    engine = build_engine(OracleDrafter(LAW))
    events = run(engine, request("a", PROMPT, replace(GREEDY, max_tokens=24)))["a", 0]
    snapshot = engine.snapshot()
    assert sum(snapshot.gammas.values()) == len(events) - 1  # the first token comes with the prompt's pass
    assert snapshot.gammas[4] >= 4
    assert set(snapshot.gammas) <= set(range(5))


def hindrances(drafter: Drafter | None = None, **options: object) -> Mapping[Hindrance, int]:
    gamma = options.pop("own_gamma", None)
    engine = build_engine(drafter or OracleDrafter(LAW), **options)
    run(engine, request("a", PROMPT, replace(GREEDY, max_tokens=6, gamma=gamma)))
    return engine.snapshot().hindrances


def test_rows_without_a_draft_are_counted_by_why() -> None:
    assert hindrances(own_gamma=0) == {Hindrance.REQUEST: 5}
    assert hindrances(gamma=0, nodes=0) == {Hindrance.OFF: 5}
    assert hindrances(FakeDrafter()) == {Hindrance.NO_GUESS: 4, Hindrance.LIMIT: 1}
    # The last token of a prompt that is fed alone is a row with one pending token, as any decoding row is.
    assert hindrances(max_step_tokens=1) == {Hindrance.LOAD: 5, Hindrance.LIMIT: 1}
    assert hindrances(num_pages=4, page_size=3, longest=12) == {Hindrance.PAGES: 2, Hindrance.LIMIT: 1}


def test_drafts_that_lose_are_told_from_drafts_that_promise_nothing() -> None:
    wrong = WrongDrafter(LAW, VOCAB)
    assert Hindrance.UNPROFITABLE in run_long(wrong).hindrances
    assert Hindrance.LOSING in run_long(weighing(wrong)).hindrances


def weighing(drafter: FakeDrafter) -> FakeDrafter:
    drafter.needs = replace(drafter.needs, weighs_nodes=True)
    return drafter


def run_long(drafter: Drafter) -> EngineSnapshot:
    engine = build_engine(drafter, is_adaptive=True)
    run(engine, request("a", PROMPT, replace(GREEDY, max_tokens=200)))
    return engine.snapshot()


class NeverDrafting(FakeDrafter):
    """Fails whenever it is asked, and learns well."""

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        raise ZeroDivisionError("broken on purpose")


def test_a_drafter_that_fails_and_then_rests_is_told_from_one_without_a_guess() -> None:
    snapshot = run_guarded(NeverDrafting())
    # It is asked in the prompt's pass too; the third failure in a row sends it to rest.
    assert snapshot.hindrances == {Hindrance.FAULT: 1, Hindrance.RESTING: 27, Hindrance.LIMIT: 1}
    assert snapshot.faults == DrafterFaults(by_kind={"ZeroDivisionError": 3}, num_pauses=1, is_resting=True)


def run_guarded(drafter: Drafter) -> EngineSnapshot:
    engine = build_engine(GuardedDrafter(drafter, vocab_size=VOCAB))
    run(engine, request("a", PROMPT, replace(GREEDY, max_tokens=30)))
    return engine.snapshot()


def test_faults_of_a_source_behind_a_wall_of_its_own_are_counted_at_the_top() -> None:
    merged = MergedDrafter([Said(broken, "bad"), saying({}, "silent")], vocab_size=VOCAB)
    snapshot = run_guarded(merged)
    assert sum(snapshot.faults.by_kind.values()) == merged.walls[0].num_failures == 3
    assert snapshot.faults.num_pauses == 1
    assert not snapshot.faults.is_resting  # the other source still says what it knows
    assert snapshot.hindrances[Hindrance.FAULT] == 3
    assert snapshot.hindrances[Hindrance.NO_GUESS] > 3


def test_nodes_that_were_drafted_and_not_verified_are_counted() -> None:
    engine = build_engine()
    engine.verification.num_dropped = 3
    assert (engine.snapshot().num_unverified, engine.snapshot().num_pruned) == (3, 0)
    engine.pruned = PrunedDrafter(engine.drafter, None)
    engine.pruned.num_pruned = 2
    assert engine.snapshot().num_pruned == 2


def test_every_verb_is_timed_in_every_step() -> None:
    snapshot, _ = several()
    assert snapshot.times.keys() == {"propose", "score", "accept", "observe", "step"}
    assert {spread.num_values for spread in snapshot.times.values()} == {snapshot.steps}
    assert snapshot.seconds["step"] > sum(snapshot.seconds[verb] for verb in ("propose", "score", "accept", "observe"))
    assert snapshot.drafting is not None
    assert 0 < snapshot.drafting.num_values < snapshot.steps


def test_a_steps_tokens_are_the_prompt_tokens_fed_and_the_tokens_committed() -> None:
    snapshot, _ = several()
    assert snapshot.step_tokens is not None
    assert snapshot.step_tokens.num_values == snapshot.steps
    # A prompt that ends on one token looks like decoding, and cached positions are not fed.
    assert snapshot.committed < snapshot.step_tokens.total <= snapshot.committed + snapshot.prompt_positions


def test_plain_seconds_are_what_the_same_rows_would_have_taken_without_drafts() -> None:
    totals = Totals()
    totals.add_decoding(tokens=6, rows=2, seconds=0.012, plain_pass=0.010)
    totals.add_decoding(tokens=1, rows=1, seconds=0.009, plain_pass=0.008)
    assert totals.decode_seconds == pytest.approx(0.021)
    assert totals.plain_seconds == pytest.approx(3 * 0.010 + 0.008)


class SlowTarget(StubTarget):
    """A pass takes 10 ms, 1 ms more for each node, and 5 ms more for each token of a prompt but the last."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(LAW, vocab_size=VOCAB, num_pages=256, page_size=4)
        self._clock = clock

    def submit(self, batch: Batch, proposal: Proposal) -> StubTicket:
        self._clock.now += 0.010 + 0.001 * len(proposal.tokens) + 0.005 * (len(batch.tokens) - batch.num_rows)
        return super().submit(batch, proposal)


@pytest.mark.parametrize(("drafter", "tokens"), [(OracleDrafter(LAW), 5), (WrongDrafter(LAW, VOCAB), 1)])
def test_the_speed_up_is_the_time_of_plain_passes_over_the_time_of_the_steps(drafter: Drafter, tokens: int) -> None:
    """Four nodes make a pass of 14 ms, against 10 ms for each token of plain decoding."""
    clock = ManualClock()
    engine = build_engine(drafter, target=SlowTarget(clock), clock=clock)
    run(engine, request("plain", PROMPT, replace(GREEDY, max_tokens=40, gamma=0)))
    before = engine.snapshot()
    assert before.plain_seconds == pytest.approx(before.decode_seconds)
    assert before.plain_pass_seconds == pytest.approx(0.010)
    run(engine, request("a", PROMPT, replace(GREEDY, max_tokens=201)))
    after = engine.snapshot()
    plain, real = (getattr(after, name) - getattr(before, name) for name in ("plain_seconds", "decode_seconds"))
    assert plain / real == pytest.approx(tokens * 10 / 14, rel=0.03)


def test_a_choice_tells_how_long_it_waited_read_and_wrote() -> None:
    engine = build_engine(max_rows=1)
    events = run(engine, request("a", PROMPT), request("b", PROMPT))
    first, second = (events[name, 0][-1].times for name in "ab")
    assert first is not None
    assert second is not None
    assert first.prefill is not None
    assert first.decode is not None
    assert second.queued > first.queued + first.prefill + first.decode - 1e-9
    assert all(event.times is None for event in events["a", 0][:-1])


def test_a_choice_that_never_got_a_row_waited_all_its_time() -> None:
    engine = build_engine(max_rows=1)
    engine.add(request("a", PROMPT))
    engine.add(request("b", PROMPT))
    engine.step()
    [event] = engine.abort("b")
    assert event.times is not None
    assert event.times.queued > 0.0
    assert (event.times.prefill, event.times.decode) == (None, None)


class Holding(FakeDrafter):
    """Keeps every plan it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.plans: list[Plan] = []

    def propose(self, batch: Batch, plan: Plan) -> Proposal:
        self.plans.append(plan)
        return super().propose(batch, plan)


def test_a_plan_names_a_hindrance_for_decoding_rows_without_nodes_and_no_others() -> None:
    engine = build_engine(drafter := Holding(), max_step_tokens=12)
    run(engine, *(request(str(at), PROMPT, replace(GREEDY, gamma=[None, 0][at % 2])) for at in range(3)))
    for plan in drafter.plans:
        for row, hindrance in enumerate(plan.hindrances):
            is_hindered = plan.num_pending[row] == 1 and not plan.num_nodes[row]
            assert (hindrance is not None) is bool(is_hindered)
