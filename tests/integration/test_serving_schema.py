"""Requests made up from the server's own description: none of them makes it fail, and answers are as described."""

from __future__ import annotations

from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from paradraft.server.app import build_app
from paradraft.server.guards.keys import Keys
from support.serving import served

EXAMPLES = settings(
    max_examples=60, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
CHECKS = (
    schemathesis.checks.not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)


@pytest.fixture(scope="module")
def server():
    with served() as running:
        yield running


def operations(server):
    schema = schemathesis.openapi.from_dict(build_app(server.context, Keys(())).openapi())
    return [found.ok() for found in schema.get_all_operations()]


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_made_up_requests_are_answered_as_described(server, mode):
    seen = set()
    for operation in operations(server):

        @EXAMPLES
        @given(case=operation.as_strategy(generation_mode=mode))
        def answers(case):
            response = case.call(base_url=server.url, timeout=20)
            case.validate_response(response, checks=list(CHECKS))
            seen.add((case.path, response.status_code))

        with suppress(Unsatisfiable):  # a route without parameters cannot be asked wrongly
            answers()
    assert server.service.health().is_alive
    assert server.context.switchboard.num_open == 0
    assert any(path == "/v1/completions" and status in (200, 400, 422) for path, status in seen)
