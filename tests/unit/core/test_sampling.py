from __future__ import annotations

import copy
import math
import pickle

import pytest

from paradraft.core.errors import ConfigError
from paradraft.core.sampling import SamplingParams


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", "hot"),
        ("top_k", -1),
        ("top_k", 2.5),
        ("top_k", True),
        ("top_p", 0.0),
        ("top_p", 1.01),
        ("min_p", -0.1),
        ("min_p", 1.5),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", -1),
        ("repetition_penalty", math.nan),
        ("repetition_penalty", 1e9),
        ("frequency_penalty", 2.1),
        ("presence_penalty", -2.1),
        ("logit_bias", {3: 101.0}),
        ("logit_bias", {-3: 1.0}),
        ("logit_bias", {"3": 1.0}),
        ("logit_bias", 3),
        ("logit_bias", None),
        ("seed", -1),
        ("seed", 2**64),
        ("stop", ("",)),
        ("stop", ("x",) * 65),
        ("stop", 5),
        ("stop", None),
        ("stop_token_ids", (-1,)),
        ("stop_token_ids", 5),
        ("stop_token_ids", "12"),
        ("min_tokens", -1),
        ("min_tokens", 300),
        ("max_tokens", 0),
        ("max_tokens", 1.0),
        ("n", 0),
        ("n", 129),
        ("logprobs", 101),
        ("prompt_logprobs", -1),
        ("gamma", 65),
        ("gamma", -1),
        ("ignore_eos", 1),
        ("speculate", None),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=field) as caught:
        SamplingParams(**{field: value})  # type: ignore[arg-type]
    assert caught.value.remedy


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(TypeError, match="best_of"):
        SamplingParams(best_of=2)  # type: ignore[call-arg]


def test_one_stop_text_may_stand_alone() -> None:
    assert SamplingParams(stop="end").stop == ("end",)  # type: ignore[arg-type]


def test_parameters_cannot_be_edited_afterwards() -> None:
    bias = {1: 2.0}
    params = SamplingParams(logit_bias=bias)
    bias[1] = 50.0
    assert params.logit_bias[1] == 2.0
    with pytest.raises(TypeError):
        params.logit_bias[1] = 3.0  # type: ignore[index]


def test_errors_survive_copying() -> None:
    with pytest.raises(ConfigError) as caught:
        SamplingParams(n=0)
    twin = copy.copy(caught.value)
    assert (twin.problem, twin.remedy, str(twin)) == (
        caught.value.problem,
        caught.value.remedy,
        str(caught.value),
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
