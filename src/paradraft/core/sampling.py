"""What a caller may ask of one generation. All of it is honoured under speculation, or refused here by name."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from paradraft.core.errors import ConfigError
from paradraft.core.grammar import Grammar

MAX_LOGPROBS = 100
MAX_CHOICES = 128
MAX_STOPS = 64
MAX_SEED = 2**64 - 1
EVERY_SOURCE = "auto"  # in draft_from, alone
NO_SOURCE = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingParams:
    """Sampling parameters of one request, in the field names of OpenAI and vLLM.

    temperature 0 is greedy decoding. top_k 0 means no limit, top_p 1 and min_p 0 mean no cut. gamma is
    the most draft tokens per step on one path (None: the engine's own choice); speculate=False decodes
    plainly. draft_from names the drafter's sources that may draft ("auto": all, (): none, like speculate=False).
    seed None draws one, and the result reports it. logprobs is the number of alternatives to
    report beside each chosen token (None: no logprobs at all), likewise prompt_logprobs. grammar is what the
    answer has to look like (None: anything); where it is complete and nothing else may follow, the answer ends.

    Raises ConfigError naming the field, the value, the allowed range and the remedy.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    min_tokens: int = 0
    max_tokens: int = 256
    ignore_eos: bool = False
    n: int = 1
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    gamma: int | None = None
    speculate: bool = True
    grammar: Grammar | None = None
    draft_from: tuple[str, ...] = (EVERY_SOURCE,)

    def __post_init__(self) -> None:
        """Check every field and freeze the ones that could be edited from outside."""
        _check_numbers(self)
        _check_collections(self)
        _check_grammar(self)
        if self.min_tokens > self.max_tokens:
            raise _refusal("min_tokens", self.min_tokens, f"at most max_tokens, which is {self.max_tokens}")

    @property
    def is_greedy(self) -> bool:
        """Whether the most probable token is taken instead of a sampled one."""
        return self.temperature == 0.0

    @property
    def is_choosy(self) -> bool:
        """Whether some of the drafter's sources may be shut out."""
        return self.draft_from != (EVERY_SOURCE,)

    @property
    def has_penalties(self) -> bool:
        """Whether earlier tokens change the distribution of later ones."""
        return (self.repetition_penalty, self.frequency_penalty, self.presence_penalty) != (1.0, 0.0, 0.0)


def _refusal(name: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(f"{name}={value!r} is not allowed.", remedy=f"Set {name} to {allowed}.")


_FLOATS: dict[str, tuple[float, float, str]] = {
    "temperature": (0.0, 100.0, "a number from 0 (greedy) to 100"),
    "top_p": (1e-9, 1.0, "a number above 0 and at most 1 (1 means no cut)"),
    "min_p": (0.0, 1.0, "a number from 0 (no cut) to 1"),
    "repetition_penalty": (0.01, 100.0, "a number from 0.01 to 100 (1 means no penalty)"),
    "frequency_penalty": (-2.0, 2.0, "a number from -2 to 2 (0 means no penalty)"),
    "presence_penalty": (-2.0, 2.0, "a number from -2 to 2 (0 means no penalty)"),
}
_INTEGERS: dict[str, tuple[int, int, str]] = {
    "top_k": (0, 2**31 - 1, "a whole number, 0 (no limit) or more"),
    "min_tokens": (0, 2**31 - 1, "a whole number, 0 or more"),
    "max_tokens": (1, 2**31 - 1, "a whole number, 1 or more"),
    "n": (1, MAX_CHOICES, f"a whole number from 1 to {MAX_CHOICES}"),
}
_OPTIONAL_INTEGERS: dict[str, tuple[int, int, str]] = {
    "seed": (0, MAX_SEED, "None or a whole number from 0 to 2**64 - 1"),
    "logprobs": (0, MAX_LOGPROBS, f"None or a whole number from 0 to {MAX_LOGPROBS}"),
    "prompt_logprobs": (0, MAX_LOGPROBS, f"None or a whole number from 0 to {MAX_LOGPROBS}"),
    "gamma": (0, 64, "None or a whole number from 0 (plain decoding) to 64"),
}


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _check_numbers(params: SamplingParams) -> None:
    for name, (low, high, allowed) in _FLOATS.items():
        value = getattr(params, name)
        if not _is_number(value) or not low <= value <= high:
            raise _refusal(name, value, allowed)
    for name, (least, most, allowed) in (_INTEGERS | _OPTIONAL_INTEGERS).items():
        value = getattr(params, name)
        if value is None and name in _OPTIONAL_INTEGERS:
            continue
        if not _is_integer(value) or not least <= value <= most:
            raise _refusal(name, value, allowed)
    for name in ("ignore_eos", "speculate"):
        if not isinstance(getattr(params, name), bool):
            raise _refusal(name, getattr(params, name), "True or False")


def _check_grammar(params: SamplingParams) -> None:
    if params.grammar is not None and not isinstance(params.grammar, Grammar):
        raise _refusal("grammar", params.grammar, "None or a Grammar, such as Grammar.json_schema({...})")
    if params.grammar is not None and params.ignore_eos:
        raise _refusal("ignore_eos", True, "False beside a grammar, whose answers end with end-of-sequence")


def _is_list(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, (str, bytes)) and len(value) <= MAX_STOPS


def _check_collections(params: SamplingParams) -> None:
    stop = (params.stop,) if isinstance(params.stop, str) else params.stop
    stop_ids, biases = params.stop_token_ids, params.logit_bias
    if not _is_list(stop) or any(not isinstance(text, str) or not text for text in stop):
        raise _refusal("stop", params.stop, f"at most {MAX_STOPS} texts, none of them empty")
    if not _is_list(stop_ids) or any(not _is_integer(token) or token < 0 for token in stop_ids):
        raise _refusal("stop_token_ids", stop_ids, f"at most {MAX_STOPS} token ids, 0 or more")
    for token, bias in biases.items() if isinstance(biases, Mapping) else [(biases, None)]:
        if not _is_integer(token) or token < 0 or not _is_number(bias) or not -100 <= bias <= 100:
            raise _refusal("logit_bias", {token: bias}, "token ids (0 or more) with numbers from -100 to 100")
    object.__setattr__(params, "draft_from", _as_sources(params.draft_from))
    object.__setattr__(params, "stop", tuple(stop))
    object.__setattr__(params, "stop_token_ids", tuple(stop_ids))
    object.__setattr__(params, "logit_bias", MappingProxyType(dict(biases)))


def _as_sources(value: object) -> tuple[str, ...]:
    """Return names of sources; `none` and None are no source at all, and `auto` stands alone."""
    names = () if value in (None, NO_SOURCE) else (value,) if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) and name for name in names):
        raise _refusal("draft_from", value, _SOURCES)
    distinct = tuple(dict.fromkeys(names))
    if len(distinct) > MAX_STOPS or (len(distinct) > 1 and {EVERY_SOURCE, NO_SOURCE} & set(distinct)):
        raise _refusal("draft_from", value, _SOURCES)
    return () if distinct == (NO_SOURCE,) else distinct


_SOURCES = f"auto, none, or at most {MAX_STOPS} names of the drafter's sources"
