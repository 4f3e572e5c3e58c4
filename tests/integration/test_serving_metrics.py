"""/metrics over HTTP: the figures of requests that were just answered."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from paradraft.observe.metrics import ServingMetrics
from support.serving import described, served, stub_engine


@pytest.fixture
def server():
    engine = stub_engine()
    metrics = ServingMetrics(described(engine))
    with served(engine, observer=metrics, figures=metrics) as running:
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


def test_without_figures_there_is_no_such_route():
    with served() as bare:
        assert bare.client.get("/metrics").status_code == 404
