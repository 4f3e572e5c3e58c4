"""What changes logits before temperature: penalties, then logit_bias, then min_tokens and the grammar."""

from __future__ import annotations

import numpy as np

from paradraft.core.arrays import BoolArray, FloatArray, IntArray
from paradraft.core.errors import ProtocolError, RequestRefused
from paradraft.core.records import RowSampling
from paradraft.core.sampling import SamplingParams


def check_sampling(sampling: RowSampling, vocab_size: int) -> None:
    """Raise RequestRefused if no token could ever be drawn as asked; to be called when a request is admitted."""
    for token in sampling.params.logit_bias:
        if token >= vocab_size:
            raise RequestRefused(
                f"logit_bias names token {token}, but the vocabulary has {vocab_size} tokens.",
                remedy=f"Use ids from 0 to {vocab_size - 1}.",
            )
    if sampling.params.min_tokens and len(_stops(sampling, vocab_size)) >= vocab_size:
        raise RequestRefused(
            f"min_tokens={sampling.params.min_tokens} forbids every token, since all {vocab_size} of them stop.",
            remedy="Set min_tokens to 0 or name fewer stop ids.",
        )


def reads_history(params: SamplingParams) -> bool:
    """Whether the adjusted logits depend on the tokens before."""
    return params.has_penalties or params.min_tokens > 0 or params.grammar is not None


def adjusts(params: SamplingParams) -> bool:
    """Whether anything may change logits before temperature."""
    return bool(params.logit_bias) or reads_history(params)


def adjust(
    logits: FloatArray, sampling: RowSampling, history: IntArray, allowed: BoolArray | None = None
) -> FloatArray:
    """Return the logits [V] after penalties, logit_bias, min_tokens and grammar; the same array if none applies.

    history holds the prompt and all tokens generated before this position; allowed [V] is what the row's grammar lets
    follow (None: everything). Masked ids get -inf.
    """
    params = sampling.params
    must_go_on = len(history) - sampling.prompt_len < params.min_tokens and bool(sampling.stop_ids)
    if not (params.has_penalties or params.logit_bias or must_go_on or allowed is not None):
        return logits
    values = logits.copy()
    if params.repetition_penalty != 1.0:
        _penalise_repetition(values, history, params.repetition_penalty)
    if params.frequency_penalty or params.presence_penalty:
        _penalise_output(values, history[sampling.prompt_len :], params)
    if params.logit_bias:
        _add_bias(values, params)
    if must_go_on:
        _forbid_stops(values, sampling, allowed)
    if allowed is not None:
        np.copyto(values, -np.inf, where=~allowed)
    return values


def _penalise_repetition(values: FloatArray, history: IntArray, penalty: float) -> None:
    """Divide positive and multiply negative logits of all tokens seen, prompt included, as transformers does."""
    seen = values[history]
    factor = np.float32(penalty)
    values[history] = np.where(seen > 0, seen / factor, seen * factor)


def _penalise_output(values: FloatArray, output: IntArray, params: SamplingParams) -> None:
    """Subtract the frequency penalty per occurrence and the presence penalty once, as OpenAI and vLLM do."""
    tokens, counts = np.unique(output, return_counts=True)
    values[tokens] -= (params.frequency_penalty * counts + params.presence_penalty).astype(np.float32)


def _add_bias(values: FloatArray, params: SamplingParams) -> None:
    bias = params.logit_bias
    tokens = np.fromiter(bias.keys(), dtype=np.int64, count=len(bias))
    if tokens.max() >= len(values):
        raise ProtocolError(
            f"logit_bias names token {tokens.max()}, but there are {len(values)} logits.",
            remedy="Refuse such a request when it is admitted (check_sampling).",
        )
    values[tokens] += np.fromiter(bias.values(), dtype=np.float32, count=len(bias))


def _forbid_stops(values: FloatArray, sampling: RowSampling, allowed: BoolArray | None) -> None:
    """Mask the stop ids, unless the grammar is complete and lets nothing else follow."""
    stops = _stops(sampling, len(values))
    if allowed is None or np.count_nonzero(allowed) > np.count_nonzero(allowed[stops]):
        values[stops] = -np.inf


def _stops(sampling: RowSampling, vocab_size: int) -> IntArray:
    """Return the distinct stop ids inside the vocabulary."""
    stops = np.unique(np.array(sampling.stop_ids, dtype=np.int32))
    inside: BoolArray = stops < vocab_size
    return stops[inside]
