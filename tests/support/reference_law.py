"""The law of the next token, slow and obvious, in float64: what verify.law must give."""

from __future__ import annotations

import math

import numpy as np

from paradraft.core.arrays import DoubleArray, FloatArray
from paradraft.core.records import RowSampling


def reference_law(logits: FloatArray, sampling: RowSampling, history: list[int]) -> DoubleArray:
    """Return the probabilities [V] after every sampling parameter."""
    params = sampling.params
    values = [float(value) for value in logits]
    output = history[sampling.prompt_len :]
    for token in set(history):
        value, penalty = values[token], params.repetition_penalty
        values[token] = value / penalty if value > 0 else value * penalty
    for token in set(output):
        values[token] -= params.frequency_penalty * output.count(token) + params.presence_penalty
    for token, bias in params.logit_bias.items():
        values[token] += bias
    if len(output) < params.min_tokens:
        for token in sampling.stop_ids:
            values[token] = -math.inf
    ranking = sorted(range(len(values)), key=lambda token: (-values[token], token))
    probabilities = np.zeros(len(values))
    if params.temperature == 0:
        probabilities[ranking[0]] = 1.0
        return probabilities
    for token in _kept(ranking, values, sampling):
        probabilities[token] = _weight(token, ranking, values, params.temperature)
    law: DoubleArray = probabilities / probabilities.sum()
    return law


def _weight(token: int, ranking: list[int], values: list[float], temperature: float) -> float:
    return math.exp((values[token] - values[ranking[0]]) / temperature)


def _kept(ranking: list[int], values: list[float], sampling: RowSampling) -> list[int]:
    params = sampling.params
    kept = ranking[: params.top_k] if params.top_k else ranking
    kept = [token for token in kept if _weight(token, ranking, values, params.temperature) >= params.min_p]
    if params.top_p == 1.0:
        return kept
    total = math.fsum(_weight(token, ranking, values, params.temperature) for token in kept)
    mass = 0.0
    for count, token in enumerate(kept, start=1):
        mass += _weight(token, ranking, values, params.temperature)
        if mass >= params.top_p * total:
            return kept[:count]
    return kept
