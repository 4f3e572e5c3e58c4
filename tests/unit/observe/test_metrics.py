from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count, pairwise

import pytest
from prometheus_client import REGISTRY

from paradraft.core.events import ChoiceTimes, GenerationStats, TokenEvent
from paradraft.core.faults import DrafterFaults
from paradraft.core.records import FinishReason, Origin
from paradraft.core.serving import EngineSnapshot, Health
from paradraft.observe.catalogue import METRICS, Kind
from paradraft.observe.metrics import ServingMetrics
from support.engines import GREEDY, LAW, VOCAB
from support.fake_drafters import RandomTreeDrafter
from support.metrics import IDLE, MODEL, STEP, Samples, Watched, asked, read_page

VLLM = {
    "num_requests_running",
    "num_requests_waiting",
    "kv_cache_usage_perc",
    "num_preemptions_total",
    "prompt_tokens_total",
    "prompt_tokens_cached_total",
    "generation_tokens_total",
    "request_success_total",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "spec_decode_num_drafts_total",
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
    "spec_decode_num_accepted_tokens_per_pos_total",
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_inference_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_prompt_tokens",
    "request_generation_tokens",
    "request_max_num_generation_tokens",
    "request_params_n",
    "request_params_max_tokens",
    "iteration_tokens_total",
}


def busy() -> Watched:
    """Return an engine that answered requests of many kinds and refused one."""
    watched = Watched(RandomTreeDrafter(VOCAB, seed=4, law=LAW), gamma=4, nodes=9, max_step_tokens=20)
    params = [replace(GREEDY, max_tokens=10 + at, n=1 + at % 2, gamma=[None, 3, 0][at % 3]) for at in range(6)]
    watched.run(*(asked(str(at), each, label=["", "code"][at % 2]) for at, each in enumerate(params)))
    watched.metrics.refused(429, "queue full")
    return watched


def names(kind: Kind, samples: Samples) -> set[str]:
    suffix = "_bucket" if kind is Kind.HISTOGRAM else ""
    return {name.removesuffix(suffix) for name, _ in samples if name.endswith(suffix)}


def test_names_are_vllms_where_vllm_has_one() -> None:
    assert {metric.wire_name for metric in METRICS.values() if metric.name.startswith("vllm:")} == {
        f"vllm:{name}" for name in VLLM
    }
    assert all(name.startswith(("vllm:", "paradraft_")) for name in METRICS)


def test_a_page_has_the_metrics_of_the_catalogue_with_their_labels_and_no_others() -> None:
    watched = busy()
    snapshot = replace(watched.snapshot(), faults=DrafterFaults(by_kind={"ids": 2}))
    samples = read_page(watched.metrics.render(snapshot, IDLE))
    found: dict[str, set[tuple[str, ...]]] = {}
    for name, labels in samples:
        if not name.startswith("process_"):
            found.setdefault(name, set()).add(tuple(sorted(key for key, _ in labels)))
    expected: dict[str, set[tuple[str, ...]]] = {}
    for metric in METRICS.values():
        labels = tuple(sorted(metric.labels))
        if metric.kind is Kind.HISTOGRAM:
            expected[f"{metric.name}_bucket"] = {tuple(sorted((*labels, "le")))}
            expected[f"{metric.name}_count"] = expected[f"{metric.name}_sum"] = {labels}
        else:
            expected[metric.wire_name] = {labels}
    assert found == expected


def test_every_sample_names_model_and_engine() -> None:
    page = busy().metrics.render(EngineSnapshot(), IDLE).decode()
    lines = [line for line in page.splitlines() if not line.startswith(("#", "process_"))]
    assert lines
    assert all('model_name="stub/model"' in line and 'engine="0"' in line for line in lines)


def test_the_page_says_what_the_engine_counted() -> None:
    watched = busy()
    samples, counts, snapshot = watched.samples(), watched.snapshot().counts, watched.snapshot()

    def value(name: str, **labels: str) -> float:
        return samples[name, tuple(sorted(labels.items()))]

    assert value("vllm:spec_decode_num_draft_tokens_total") == counts.drafted
    assert value("vllm:spec_decode_num_accepted_tokens_total") == counts.accepted
    assert value("vllm:spec_decode_num_drafts_total") == counts.drafted_by_depth[0]
    per_position = [value("vllm:spec_decode_num_accepted_tokens_per_pos_total", position=str(at)) for at in range(4)]
    assert sum(per_position) == counts.accepted
    assert all(before >= after for before, after in pairwise(per_position))
    refused = sum(value("paradraft_spec_refused_drafts_total", position=str(at)) for at in range(4))
    assert counts.accepted / (counts.accepted + refused) == counts.path_acceptance_rate
    assert value("vllm:generation_tokens_total") == sum(len(event.token_ids) for event in watched.events)
    assert value("vllm:prompt_tokens_total") == 9 * 8
    wasted = ("rejected", "dropped", "recomputed")
    saved = counts.drafted - sum(value("paradraft_spec_wasted_draft_tokens_total", reason=why) for why in wasted)
    assert saved / counts.drafted == pytest.approx(counts.effective_acceptance_rate)
    assert value("paradraft_spec_gamma_count") == sum(snapshot.gammas.values())
    assert value("paradraft_spec_disabled_steps_total", reason="request") > 0
    assert value("paradraft_spec_source_draft_tokens_total", source="fake") == counts.drafted
    assert value("paradraft_engine_steps_total") == value("paradraft_step_seconds_count") == snapshot.steps
    pages = [value("paradraft_kv_pages", state=state) for state in ("held", "cached", "free")]
    assert sum(pages) == snapshot.pages_total


def test_the_figures_of_all_choices_add_up_to_the_engines() -> None:
    watched = busy()
    samples, stats = watched.samples(), [event.stats for event in watched.events if event.stats is not None]
    with_drafts = sum(each.drafted > 0 for each in stats)
    assert samples["paradraft_spec_request_acceptance_rate_count", ()] == with_drafts
    assert samples["paradraft_spec_request_path_acceptance_rate_count", ()] == with_drafts
    assert sum(each.drafted for each in stats) == samples["vllm:spec_decode_num_draft_tokens_total", ()]
    assert samples["vllm:request_generation_tokens_sum", ()] == samples["vllm:generation_tokens_total", ()]
    assert samples["vllm:request_success_total", (("finished_reason", "length"),)] == len(stats) == 9
    for figure, whole in {
        "paradraft_class_draft_tokens_total": "vllm:spec_decode_num_draft_tokens_total",
        "paradraft_class_accepted_tokens_total": "vllm:spec_decode_num_accepted_tokens_total",
        "paradraft_class_refused_drafts_total": "paradraft_spec_refused_drafts_total",
    }.items():
        by_class = [samples[figure, (("prompt_class", kind),)] for kind in CLASSES]
        assert sum(by_class) > 0
        assert sum(by_class) == sum(value for (name, _), value in samples.items() if name == whole)


CLASSES = ("unnamed", "code")


def event(tokens: str, index: int = 0, *, end: FinishReason | None = None, **fields: object) -> TokenEvent:
    """Return an event; tokens is a letter for each: p plain, d drafted, r recovered, b bonus."""
    origins = {"p": Origin.PLAIN, "d": Origin.DRAFTED, "r": Origin.RECOVERED, "b": Origin.BONUS}
    return TokenEvent(
        request_id="a",
        index=index,
        token_ids=tuple(range(len(tokens))),
        origins=tuple(origins[token] for token in tokens),
        pieces=tuple("x" for _ in tokens),
        finish_reason=end,
        **fields,
    )


def test_times_of_a_request_counted_by_hand() -> None:
    metrics = ServingMetrics(MODEL, clock=lambda: 0.0)
    metrics.arrived(asked("a", replace(GREEDY, max_tokens=10, n=2)), 100.0)
    metrics.told([event("p"), event("p", 1)], 100.5)
    metrics.told([event("ddb")], 100.6)
    times = ChoiceTimes(queued=0.1, prefill=0.4, decode=0.3)
    counts = GenerationStats(drafted=7, accepted=2, refused_by_depth=(1, 0, 2))
    metrics.told([event("r", end=FinishReason.STOP, times=times, stats=counts)], 100.8)
    metrics.told([event("", 1, end=FinishReason.ABORT, times=times, stats=GenerationStats(drafted=4))], 101.0)
    samples = read_page(metrics.render(EngineSnapshot(), IDLE))

    def sums(name: str) -> tuple[float, float]:
        return samples[f"{name}_count", ()], pytest.approx(samples[f"{name}_sum", ()])

    assert sums("vllm:time_to_first_token_seconds") == (2, 1.0)
    assert sums("vllm:inter_token_latency_seconds") == (2, 0.3)
    assert sums("vllm:e2e_request_latency_seconds") == (2, 1.8)
    assert sums("vllm:request_queue_time_seconds") == (2, 0.2)
    assert sums("vllm:request_prefill_time_seconds") == (2, 0.8)
    assert sums("vllm:request_decode_time_seconds") == (2, 0.6)
    assert sums("vllm:request_inference_time_seconds") == (2, 1.4)
    assert sums("vllm:request_time_per_output_token_seconds") == (1, 0.3 / 4)
    assert sums("vllm:request_generation_tokens") == (2, 6)
    assert sums("vllm:request_max_num_generation_tokens") == (1, 5)
    assert sums("vllm:request_params_n") == (1, 2)
    assert sums("vllm:request_params_max_tokens") == (1, 10)
    assert sums("vllm:request_prompt_tokens") == (2, 16)
    ended = {labels: value for (name, labels), value in samples.items() if name == "vllm:request_success_total"}
    assert ended == {(("finished_reason", why),): float(why in ("stop", "abort")) for why in FinishReason}
    assert samples["paradraft_class_draft_tokens_total", (("prompt_class", "unnamed"),)] == 11
    assert samples["paradraft_class_accepted_tokens_total", (("prompt_class", "unnamed"),)] == 2
    assert samples["paradraft_class_refused_drafts_total", (("prompt_class", "unnamed"),)] == 3


def test_counts_on_the_way_are_not_added_to_those_of_the_end() -> None:
    metrics = ServingMetrics(MODEL, clock=lambda: 0.0)
    metrics.arrived(asked("a"), 100.0)
    metrics.told([event("db", stats=GenerationStats(drafted=3, accepted=1))], 100.5)
    metrics.told([event("p", end=FinishReason.STOP, stats=GenerationStats(drafted=3, accepted=1))], 100.6)
    samples = read_page(metrics.render(EngineSnapshot(), IDLE))
    assert samples["paradraft_class_draft_tokens_total", (("prompt_class", "unnamed"),)] == 3
    assert samples["paradraft_spec_request_acceptance_rate_count", ()] == 1


def test_a_fast_engine_is_told_from_a_slower_one_within_a_millisecond() -> None:
    watched = Watched()
    watched.run(asked("a", replace(GREEDY, max_tokens=4)))
    samples = watched.samples()
    bounds = {
        float(dict(labels)["le"]) for name, labels in samples if name == "vllm:inter_token_latency_seconds_bucket"
    }
    assert min(bounds) == 0.0005
    assert len([bound for bound in bounds if bound <= STEP]) >= 8


def test_prompt_classes_are_bounded_and_their_names_plain() -> None:
    watched = Watched(max_classes=3)
    for at, label in enumerate(['co"de\n} 1', "law", "x" * 500, "one too many", "and another", "law"]):
        watched.run(asked(str(at), label=label))
    classes = {dict(labels)["prompt_class"] for name, labels in watched.samples() if name.startswith("paradraft_class")}
    assert classes == {"co_de___1", "law", "x" * 64, "other"}
    assert watched.value("paradraft_class_requests_total", prompt_class="other") == 2
    assert watched.value("paradraft_class_requests_total", prompt_class="law") == 2


def test_requests_without_a_class_have_a_place_of_their_own_whoever_used_up_the_others() -> None:
    watched = Watched(max_classes=1)
    for at, label in enumerate(["law", "code", "", "other", "unnamed"]):
        watched.run(asked(str(at), label=label))
    assert watched.value("paradraft_class_requests_total", prompt_class="unnamed") == 2
    assert watched.value("paradraft_class_requests_total", prompt_class="other") == 2


def test_kinds_of_faults_and_refusals_are_bounded() -> None:
    watched = Watched()
    for at in range(100):
        watched.metrics.refused(400, f"reason {at}")
    faults = DrafterFaults(by_kind={f"Error{at}": 1 for at in range(100)}, num_pauses=3, is_resting=True)
    for _ in range(2):
        samples = read_page(watched.metrics.render(replace(watched.snapshot(), faults=faults), IDLE))
    kinds = [value for (name, _), value in samples.items() if name == "paradraft_drafter_faults_by_kind_total"]
    refusals = [value for (name, _), value in samples.items() if name == "paradraft_requests_rejected_total"]
    assert (len(kinds), sum(kinds)) == (17, 100)
    assert samples["paradraft_drafter_faults_total", ()] == 100
    assert (len(refusals), sum(refusals)) == (33, 100)
    assert samples["paradraft_drafter_pauses_total", ()] == 3
    assert samples["paradraft_drafter_resting", ()] == 1


def test_health_is_on_the_page() -> None:
    stuck = Health(is_alive=True, has_work=True, seconds_since_progress=40.0)
    samples = Watched().samples(stuck)
    assert samples["paradraft_engine_up", ()] == samples["paradraft_engine_has_work", ()] == 1
    assert samples["paradraft_engine_seconds_since_progress", ()] == 40.0
    assert samples["paradraft_engine_last_progress_timestamp_seconds", ()] == 960.0
    dead = Watched().samples(Health(is_alive=False, has_work=True, seconds_since_progress=1.0, failure="it fell"))
    assert dead["paradraft_engine_up", ()] == 0


def test_what_is_not_known_yet_is_not_a_number() -> None:
    samples = Watched().samples()
    assert math.isnan(samples["paradraft_plain_pass_seconds", ()])
    assert math.isnan(samples["paradraft_spec_acceptance_deviation", ()])


def test_events_of_unknown_requests_do_no_harm_and_ended_ones_leave_nothing() -> None:
    watched = Watched()
    watched.metrics.told([event("ddb", end=FinishReason.STOP)], 1.0)
    watched.run(*(asked(str(at), replace(GREEDY, n=3)) for at in range(4)))
    assert watched.metrics._tallies.num_open == 0


def test_requests_that_never_end_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paradraft.observe.requests.MAX_OPEN", 10)
    metrics = ServingMetrics(MODEL)
    for at in range(30):
        metrics.arrived(asked(str(at)), 0.0)
    assert metrics._tallies.num_open == 10


def test_two_models_are_counted_apart_and_nothing_is_global() -> None:
    before = sorted(family.name for family in REGISTRY.collect())
    first, second = Watched(), Watched()
    first.run(asked("a"))
    assert first.value("vllm:generation_tokens_total") == 24
    assert second.value("vllm:generation_tokens_total") == 0
    assert sorted(family.name for family in REGISTRY.collect()) == before


def test_a_page_can_be_read_by_another_thread_while_the_engine_works() -> None:
    watched = Watched()

    def scrape() -> list[Samples]:
        return [read_page(watched.metrics.render(EngineSnapshot(), IDLE)) for _ in range(30)]

    with ThreadPoolExecutor(1) as pool:
        pages = pool.submit(scrape)
        for at in count():
            watched.run(asked(str(at), replace(GREEDY, n=2), label=f"class {at}"))
            if pages.done():
                break
    seen = pages.result()
    counted = [page["vllm:inter_token_latency_seconds_count", ()] for page in seen]
    assert counted == sorted(counted)
    assert counted[-1] > 0
    for page in seen:
        assert (
            page["vllm:inter_token_latency_seconds_bucket", (("le", "+Inf"),)]
            == page["vllm:inter_token_latency_seconds_count", ()]
        )
