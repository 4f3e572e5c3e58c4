"""/metrics over HTTP: the figures of requests that were just answered."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from paradraft.engine.engine import Engine
from paradraft.observe.metrics import MAX_CLASSES, ServingMetrics
from support.fake_drafters import HalfRightDrafter
from support.serving import BYTES, described, served, stub_engine
from support.stub_target import hashed_law


@contextmanager
def watched(engine: Engine):
    metrics = ServingMetrics(described(engine))
    with served(engine, observer=metrics, figures=metrics) as running:
        yield running


@pytest.fixture
def server():
    with watched(stub_engine()) as running:
        yield running


@pytest.fixture
def drafted_server():
    with watched(stub_engine(drafter=HalfRightDrafter(hashed_law(BYTES), BYTES))) as running:
        yield running


def figures(server) -> dict[str, float]:
    """Return the sum over all labels of each sample."""
    page = server.client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(page.text):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


def test_requests_and_speculation_are_counted_under_the_names_of_vllm(server):
    before = figures(server)
    answer = server.client.post(
        "/v1/completions",
        json={"prompt": [1, 2, 3], "max_tokens": 30, "temperature": 0, "speculative": {"stats": True}},
    ).json()
    after = figures(server)
    told = answer["metrics"]["speculative_decoding"]

    def grown(name: str) -> float:
        return after[name] - before.get(name, 0.0)

    assert grown("vllm:prompt_tokens_total") == 3
    assert grown("vllm:generation_tokens_total") == answer["usage"]["completion_tokens"]
    assert grown("vllm:request_success_total") == 1
    assert grown("vllm:spec_decode_num_drafts_total") == told["num_spec_steps"]
    assert grown("vllm:spec_decode_num_draft_tokens_total") == told["num_draft_tokens"]
    assert grown("vllm:spec_decode_num_accepted_tokens_total") == told["num_accepted_draft_tokens"]
    assert after["vllm:num_requests_running"] == 0


def test_refusals_are_counted(server):
    server.client.post("/v1/completions", json={"prompt": "x", "temperature": -1})
    assert figures(server)["paradraft_requests_rejected_total"] == 1


def by_class(server, name: str) -> dict[str, float]:
    """Return the samples of a counter by class of prompt."""
    families = text_string_to_metric_families(server.client.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples]
    return {sample.labels["prompt_class"]: sample.value for sample in samples if sample.name == name}


SAYS_HI = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 20, "temperature": 0}
GOES_ON = {"prompt": [[1, 2, 3], [4, 5]], "n": 2, "max_tokens": 20, "temperature": 0}
TELLS = {"speculative": {"stats": True}}


def test_drafting_is_counted_by_the_class_that_a_request_names(drafted_server):
    server, told = drafted_server, {}
    for route, fields, name in (
        ("/v1/chat/completions", SAYS_HI, "support/chat"),
        ("/v1/completions", GOES_ON, "code:c++"),
        ("/v1/completions", GOES_ON, None),
    ):
        named = {} if name is None else {"metadata": {"class": name}}
        answer = server.client.post(route, json={**fields, **TELLS, **named})
        assert answer.status_code == 200, answer.text
        told[name or "unnamed"] = answer.json()["metrics"]["speculative_decoding"]
    drafted = by_class(server, "paradraft_class_draft_tokens_total")
    assert drafted == {name: figures["num_draft_tokens"] for name, figures in told.items()}
    accepted = by_class(server, "paradraft_class_accepted_tokens_total")
    assert accepted == {name: figures["num_accepted_draft_tokens"] for name, figures in told.items()}
    assert all(0 < accepted[name] < drafted[name] for name in told)
    assert by_class(server, "paradraft_class_requests_total") == {"support/chat": 1, "code:c++": 2, "unnamed": 2}


def test_a_class_changes_nothing_that_is_said(server):
    plain = server.client.post("/v1/completions", json=GOES_ON).json()
    named = server.client.post("/v1/completions", json={**GOES_ON, "metadata": {"class": "a"}}).json()
    assert named["choices"] == plain["choices"]
    assert named["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"]


def test_clients_cannot_make_the_page_grow_with_classes(server):
    for at in range(MAX_CLASSES + 20):
        body = {**GOES_ON, "max_tokens": 1, "metadata": {"class": f"class-{at}"}}
        assert server.client.post("/v1/completions", json=body).status_code == 200
    server.client.post("/v1/completions", json={**GOES_ON, "max_tokens": 1})
    counted = by_class(server, "paradraft_class_requests_total")
    assert len(counted) == MAX_CLASSES + 2
    assert (counted["other"], counted["unnamed"]) == (2 * 20, 2)


def test_a_refusal_of_a_class_names_it_and_counts_no_class(server):
    wrong = server.client.post("/v1/completions", json={**GOES_ON, "metadata": {"class": 'a"} 1'}})
    error = wrong.json()["error"]
    assert (wrong.status_code, error["param"]) == (422, "metadata.class")
    assert """'a"} 1' is no name of a class""" in error["message"]
    other = server.client.post("/v1/completions", json={**GOES_ON, "metadata": {"trace": "1"}})
    assert "the key 'trace' is not kept anywhere" in other.json()["error"]["message"]
    assert by_class(server, "paradraft_class_requests_total") == {}


def test_without_figures_there_is_no_such_route():
    with served() as bare:
        assert bare.client.get("/metrics").status_code == 404
