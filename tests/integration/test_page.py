"""The page over HTTP: its files and their headers, who gets them, and the figures it draws."""

from __future__ import annotations

import base64
import json
import re
import time

import pytest
from typer.testing import CliRunner

from paradraft.cli.main import app
from paradraft.core.sampling import SamplingParams
from paradraft.server.options import ServerOptions
from support.engines import request, run
from support.pages import readable_engine
from support.serving import served
from support.source_tree import PACKAGE

FILES = sorted(path for path in (PACKAGE / "server" / "page").iterdir() if path.is_file())
PATHS = ["/", "/page/live", *(f"/page/{path.name}" for path in FILES)]
ASK = {"prompt": list(b"once"), "max_tokens": 24, "temperature": 0}


@pytest.fixture(scope="module")
def server():
    with served(readable_engine()) as running:
        yield running


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_come_as_they_are_under_a_strict_policy(server, path):
    response = server.client.get(f"/page/{path.name}")
    assert response.content == path.read_bytes()
    assert response.headers["content-type"].split(";")[0] in (
        "text/html",
        "text/css",
        "text/javascript",
        "image/svg+xml",
    )
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert re.findall(r"(?:script|style|img|connect)-src ([^;]*)", policy) == ["'self'"] * 4
    assert response.headers["x-content-type-options"] == "nosniff"


def test_the_first_page_names_only_files_that_exist(server):
    text = server.client.get("/").text
    named = re.findall(r'(?:src|href)="([^"#]+)"', text)
    assert len(named) >= 5
    assert all(server.client.get(f"/{name}").status_code == 200 for name in named)
    modules = "".join(path.read_text() for path in FILES if path.suffix == ".js")
    assert {f"./{path.name}" for path in FILES if path.suffix == ".js"} - {"./main.js"} == set(
        re.findall(r'from "([^"]+)"', modules)
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_loaded_from_elsewhere(path):
    text = path.read_text().replace("http://www.w3.org/2000/svg", "")
    assert "//" not in re.sub(r"^\s*//.*$|\s// .*$", "", text, flags=re.MULTILINE)
    assert not re.search(r"<script>|<style>|\sstyle=|\son\w+=|innerHTML|eval\(", text)


def test_what_a_browser_has_already_is_not_sent_again(server):
    first = server.client.get("/page/main.js")
    again = server.client.get("/page/main.js", headers={"If-None-Match": first.headers["etag"]})
    other = server.client.get("/page/main.js", headers={"If-None-Match": '"something else"'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert other.content == first.content
    assert len({server.client.get(f"/page/{path.name}").headers["etag"] for path in FILES}) == len(FILES)


@pytest.mark.parametrize(
    "path",
    [
        "../app.py",
        "%2e%2e/app.py",
        "..%2fapp.py",
        "..%5capp.py",
        "%00",
        "",
        ".",
        "../../cli/main.py",
        "main.js/",
        "MAIN.JS",
    ],
)
def test_only_files_of_the_page_can_be_named(server, path):
    response = server.client.get(f"/page/{path}", follow_redirects=False)
    assert response.status_code in (307, 404)
    assert b"import" not in response.content


def test_without_a_page_its_paths_are_unknown():
    with served(options=ServerOptions(has_page=False)) as plain:
        assert [plain.client.get(path).status_code for path in PATHS] == [404] * len(PATHS)
        assert plain.client.get("/v1/models").status_code == 200


def test_a_key_is_needed_for_all_of_it_and_a_browser_may_send_it_as_a_password():
    with served(keys=["the-key"]) as guarded:
        denied = [guarded.client.get(path, headers={"Authorization": ""}) for path in PATHS]
        assert [response.status_code for response in denied] == [401] * len(PATHS)
        assert all(b"<html" not in response.content for response in denied)
        password = base64.b64encode(b"anybody:the-key").decode()
        given = [guarded.client.get(path, headers={"Authorization": f"Basic {password}"}) for path in PATHS]
        assert [response.status_code for response in given] == [200] * len(PATHS)


def test_the_flag_of_the_command_leaves_the_page_out(monkeypatch):
    seen = []

    def run(config, given, *rest):
        seen.append(given.has_page)
        return True

    monkeypatch.setattr("paradraft.cli.serve._run", run)
    for arguments in (["serve", "--port", "0"], ["serve", "--port", "0", "--no-page"]):
        assert CliRunner().invoke(app, arguments).exit_code == 0
    assert seen == [True, False]


def test_the_figures_add_up_to_what_was_said(server):
    assert server.client.get("/page/live").json()["not_ready"] is None
    answer = server.client.post("/v1/completions", json={**ASK, "speculative": {"stats": True}}).json()
    time.sleep(1.05)
    samples = server.client.get("/page/live").json()["samples"]
    told = answer["metrics"]["speculative_decoding"]
    assert sum(sample["tokens"] for sample in samples) == answer["usage"]["completion_tokens"] == 24
    assert sum(sum(sample["accepted"]) for sample in samples) == told["num_accepted_draft_tokens"] > 0
    assert sum(sample["steps"] for sample in samples) == told["num_passes"] < 24
    assert server.client.get(f"/page/live?after={samples[-1]['number']}").json()["samples"] == []


@pytest.mark.parametrize("after", ["-1", "x", "1e9"])
def test_a_number_that_is_none_is_refused(server, after):
    response = server.client.get(f"/page/live?after={after}")
    assert (response.status_code, response.json()["error"]["param"]) == (422, "after")


def test_a_stream_tells_where_its_tokens_come_from_as_the_engine_does(server):
    alone = run(readable_engine(), request("alone", ASK["prompt"], SamplingParams(temperature=0.0, max_tokens=24)))
    events = alone[("alone", 0)]
    choices = streamed(server, speculative={"origins": True})
    pieces = [piece for choice in choices for piece in choice["pieces"]]
    origins = [origin for choice in choices for origin in choice["origins"]]
    assert pieces == [piece for event in events for piece in event.pieces]
    assert origins == [origin.name.lower() for event in events for origin in event.origins]
    assert set(origins) == {"plain", "drafted", "recovered", "bonus"}
    assert all("".join(choice["pieces"]) == choice["text"] for choice in choices)
    whole = server.client.post("/v1/completions", json={**ASK, "speculative": {"origins": True}}).json()["choices"][0]
    assert (whole["pieces"], whole["origins"]) == (pieces, origins)


def test_origins_are_told_on_request_only(server):
    assert not {"pieces", "origins"} & {key for choice in streamed(server) for key in choice}
    scored = {**ASK, "max_tokens": 0, "echo": True, "speculative": {"origins": True}}
    assert "origins" not in server.client.post("/v1/completions", json=scored).json()["choices"][0]


def streamed(server, **fields) -> list[dict]:
    answer = server.client.post("/v1/completions", json={**ASK, "stream": True, **fields})
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    return [choice for line in lines for choice in json.loads(line)["choices"]]
