"""Embeddings beside answers: the right numbers, whatever shares the pass, and no trace of them afterwards."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

import httpx2 as httpx
import numpy as np
import pytest

from paradraft import LLM
from paradraft.core.errors import RequestRefused
from paradraft.core.ports import Target
from paradraft.core.sampling import SamplingParams
from paradraft.models.tiny import write_tiny_model
from paradraft.server.options import ServerOptions
from support.embedding import embedded, engine_over, expected
from support.engines import build_engine, ids_of, request, run
from support.serving import served
from support.targets import TARGETS, build_target

TEXTS = [[3, 14, 15, 9, 26, 5, 35, 8, 9, 7], [27], [18, 28, 1, 8, 28, 4, 5, 9, 4, 5, 9, 4, 5, 7, 7, 7, 20, 21, 22]]
WARM = SamplingParams(temperature=0.8, max_tokens=12)
NAMES = sorted(
    {"torch-llama", "torch-qwen3", "native-llama", "native-qwen3", "transformers-gemma2", "transformers-gpt_neox"}
    & TARGETS.keys()
)


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


@cache
def shared(name: str) -> Target:
    """Return a target that several engines use one after the other."""
    return build_target(name)


@pytest.mark.parametrize("name", NAMES)
def test_an_embedding_is_the_mean_of_the_last_hidden_states(name: str) -> None:
    found = embedded(engine_over(shared(name)), TEXTS)
    for vector, tokens in zip(found, TEXTS, strict=True):
        np.testing.assert_allclose(vector, expected(name, tokens), atol=2e-5)
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_neighbours_and_chunks_change_nothing(name: str) -> None:
    together = embedded(engine_over(shared(name)), TEXTS)
    in_bits = embedded(engine_over(shared(name), max_step_tokens=3), TEXTS)
    for at, tokens in enumerate(TEXTS):
        [alone] = embedded(engine_over(shared(name)), [tokens])
        for other in (together[at], in_bits[at]):
            if name.startswith("native"):
                np.testing.assert_array_equal(other, alone)
            else:
                np.testing.assert_allclose(other, alone, atol=2e-5)


def test_answers_that_run_meanwhile_stay_as_they_are() -> None:
    prompts = {"a": TEXTS[0], "b": TEXTS[2]}
    alone = {
        key: ids_of(run(engine_over(shared("torch-llama")), request(key, prompt, WARM))[key, 0])
        for key, prompt in prompts.items()
    }
    engine = engine_over(shared("torch-llama"))
    answer: Future = Future()
    engine.embedder.add(TEXTS, answer)
    events = run(engine, *(request(key, prompt, WARM) for key, prompt in prompts.items()))
    assert {key: ids_of(events[key, 0]) for key in prompts} == alone
    for vector, tokens in zip(answer.result(0), TEXTS, strict=True):
        np.testing.assert_allclose(vector, expected("torch-llama", tokens), atol=2e-5)


def test_pages_are_freed_and_nobody_finds_what_was_in_them() -> None:
    engine = engine_over(shared("torch-llama"))
    embedded(engine, TEXTS)
    engine.pages.check()
    counts = engine.pages.counts()
    assert (counts.held, counts.cached) == (0, 0)
    assert run(engine, request("x", TEXTS[2], WARM))["x", 0][-1].stats.cached_prompt_tokens == 0


def test_texts_wait_until_rows_leave_pages_for_them() -> None:
    engine = engine_over(shared("torch-llama"), num_pages=10)
    answer: Future = Future()
    engine.add(request("x", TEXTS[2], WARM))
    engine.step()
    engine.embedder.add([TEXTS[2]], answer)
    engine.step()
    assert not answer.done()
    run(engine)
    np.testing.assert_allclose(answer.result(0)[0], expected("torch-llama", TEXTS[2]), atol=2e-5)


def test_nothing_more_is_computed_for_who_cancels() -> None:
    engine = engine_over(shared("torch-llama"), max_step_tokens=4)
    answer: Future = Future()
    engine.embedder.add(TEXTS, answer)
    engine.step()
    assert answer.cancel()
    engine.step()
    assert not engine.has_work
    assert engine.pages.counts().held == 0


def test_a_pass_that_fails_ends_its_own_texts_alone(monkeypatch) -> None:
    target = build_target("torch-llama")
    engine = engine_over(target)
    answers: list[Future] = [Future(), Future()]
    right = target.last_hidden

    def wrong(batch):
        raise RuntimeError("on purpose")

    monkeypatch.setattr(target, "last_hidden", wrong)
    engine.embedder.add([TEXTS[2]], answers[0])
    alone = ids_of(run(engine_over(shared("torch-llama")), request("x", TEXTS[0], WARM))["x", 0])
    assert ids_of(run(engine, request("x", TEXTS[0], WARM))["x", 0]) == alone
    with pytest.raises(RuntimeError, match="on purpose"):
        answers[0].result(0)
    monkeypatch.setattr(target, "last_hidden", right)
    engine.embedder.add([TEXTS[1]], answers[1])
    run(engine)
    np.testing.assert_allclose(answers[1].result(0)[0], expected("torch-llama", TEXTS[1]), atol=2e-5)
    assert engine.pages.counts().held == 0


@pytest.mark.parametrize("texts", [[[]], [[1] * 41], [[5, 61]], [[-1]]])
def test_texts_that_cannot_be_embedded_are_refused(texts: list[list[int]]) -> None:
    with pytest.raises(RequestRefused, match="Text 0"):
        engine_over(shared("torch-llama")).embedder.check(texts)


def test_a_target_without_hidden_states_says_so() -> None:
    with pytest.raises(RequestRefused, match="no embeddings"):
        build_engine().embedder.check([[1]])


@pytest.fixture(scope="module")
def server():
    with served(engine_over(build_target("torch-llama")), options=ServerOptions(max_prompts=4)) as running:
        yield running


def test_the_route_answers_in_openais_shape(server) -> None:
    answer = server.client.post("/v1/embeddings", json={"input": TEXTS}).json()
    assert (answer["object"], answer["model"]) == ("list", "stub")
    assert answer["usage"] == {"prompt_tokens": 30, "total_tokens": 30}
    assert [each["index"] for each in answer["data"]] == [0, 1, 2]
    for each, tokens in zip(answer["data"], TEXTS, strict=True):
        np.testing.assert_allclose(each["embedding"], expected("torch-llama", tokens), atol=2e-5)
    coded = server.client.post("/v1/embeddings", json={"input": TEXTS[0], "encoding_format": "base64"}).json()
    vector = np.frombuffer(base64.b64decode(coded["data"][0]["embedding"]), dtype="<f4")
    np.testing.assert_allclose(vector, answer["data"][0]["embedding"], atol=1e-6)


def test_a_text_gives_the_vector_of_its_ids(server) -> None:
    text = "\x05\x09"
    by_text = server.client.post("/v1/embeddings", json={"input": [text]}).json()["data"][0]["embedding"]
    by_ids = server.client.post("/v1/embeddings", json={"input": [5, 9]}).json()["data"][0]["embedding"]
    assert by_text == by_ids


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"input": ""}, 400, "input"),
        ({"input": []}, 422, "input"),
        ({"input": [[1]] * 5}, 400, "input"),
        ({"input": [1] * 41}, 400, "input"),
        ({"input": [61]}, 400, "input"),
        ({"dimensions": 8}, 422, "dimensions"),
        ({"encoding_format": "hex"}, 422, "encoding_format"),
        ({"model": "other"}, 404, "model"),
        ({"inputs": "x"}, 422, "inputs"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(server, fields, status, param) -> None:
    response = server.client.post("/v1/embeddings", json={"input": [1, 2], **fields})
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)


def test_the_size_of_embeddings_is_told(server) -> None:
    [card] = server.client.get("/v1/models").json()["data"]
    assert card["paradraft"]["embedding_size"] == 48


def test_texts_that_wait_are_bounded_for_all_and_for_each_key_and_finish_before_a_stop() -> None:
    engine, release = engine_over(shared("torch-llama")), threading.Event()
    step = engine.step
    engine.step = lambda: release.wait(30) and step()  # type: ignore[method-assign]
    options = ServerOptions(max_prompts=2, max_waiting=1, max_per_key=2)
    with served(engine, options=options, keys=("one", "two")) as running, ThreadPoolExecutor(2) as pool:

        def ask(key: str, *texts: list[int]) -> httpx.Response:
            headers = {"Authorization": f"Bearer {key}"}
            return running.client.post("/v1/embeddings", json={"input": texts}, headers=headers)

        board = running.context.switchboard
        first = pool.submit(ask, "one", [1], [2])
        assert until(lambda: board.num_texts == 2)
        mine, all_full = ask("one", [3]), ask("two", [3], [4])
        assert (mine.status_code, all_full.status_code) == (429, 429)
        assert "with this API key" in mine.json()["error"]["message"]
        second = pool.submit(ask, "two", [3])
        assert until(lambda: board.num_texts == 3)
        assert not asyncio.run(board.until_idle(0.05))
        release.set()
        assert [each.result(20).status_code for each in (first, second)] == [200, 200]
        assert until(lambda: board.num_texts == 0)


def test_no_texts_are_taken_while_a_server_stops() -> None:
    engine = engine_over(shared("torch-llama"))
    with served(engine, options=ServerOptions(max_prompts=2, max_waiting=0)) as running:
        assert running.client.post("/v1/embeddings", json={"input": [[1], [2]]}).status_code == 200
        running.context.admission.is_draining = True
        assert running.client.post("/v1/embeddings", json={"input": [1]}).status_code == 503


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    folder = write_tiny_model(tmp_path_factory.mktemp("tiny"), "llama", 1)
    with LLM(str(folder), dtype="fp32", kv_tokens=4096, seed=5) as opened:
        yield opened


def test_the_library_gives_the_vectors_that_a_service_gives(llm: LLM) -> None:
    texts = ["one two three", "a", "Grüße, 漢字 🙂"]
    ids = [llm.tokenizer.encode(text) for text in texts]
    found = llm.embed(texts)
    assert (found.shape, found.dtype) == ((3, llm.engine.embedder.size), np.float32)
    np.testing.assert_allclose(found, np.stack(embedded(llm.engine, ids)), atol=2e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(llm.embed([*map(np.array, ids)]), found, atol=2e-5)
    np.testing.assert_allclose(llm.embed(texts[0]), found[:1], atol=2e-5)


def test_no_texts_give_no_vectors(llm: LLM) -> None:
    assert llm.embed([]).shape == (0, llm.engine.embedder.size)


def test_an_open_stream_of_the_library_loses_nothing_to_embeddings(llm: LLM) -> None:
    [alone] = llm.generate("one two", WARM)
    stream = llm.stream("one two", WARM)
    tokens = [*next(stream).token_ids]
    vectors = llm.embed(["x" * 40] * 3)
    tokens += [token for event in stream for token in event.token_ids]
    assert tuple(tokens) == tuple(alone.choices[0].token_ids)
    np.testing.assert_allclose(vectors, llm.embed(["x" * 40] * 3), atol=2e-5)


def test_the_library_refuses_a_text_before_any_is_computed(llm: LLM) -> None:
    with pytest.raises(RequestRefused, match="Text 1 has 0 tokens"):
        llm.embed([[1], []])
    with pytest.raises(RequestRefused, match="neither a text nor token ids"):
        llm.embed([[1], [1.5]])  # type: ignore[list-item]
    assert not llm.engine.has_work


def test_an_interrupted_embedding_of_the_library_is_not_computed_on(llm: LLM, monkeypatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(llm.engine, "step", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            llm.embed("one two")
    with monkeypatch.context() as watched:
        watched.setattr(llm.engine.embedder._target, "last_hidden", lambda _: pytest.fail("it was computed"))
        llm.engine.step()
    assert not llm.engine.has_work
    assert llm.engine.pages.counts().held == 0


def test_a_closed_llm_embeds_nothing(tmp_path) -> None:
    opened = LLM(str(write_tiny_model(tmp_path, "llama", 1)), dtype="fp32", kv_tokens=4096)
    opened.close()
    with pytest.raises(RequestRefused, match="closed"):
        opened.embed("one")
