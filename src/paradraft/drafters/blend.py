"""Blends what several drafters say about one token into one law, and learns how much to make of each.

A logistic pool over the tokens that anybody names, and one outcome more for all others. With p_s(t) what source s says
and r_s what it leaves to tokens that it does not name,
    z(t)    = sum over s that speak of  (w_s log p_s(t) + c_s  if s names t,  u_s log r_s + d_s  if not)
    z(none) = b(depth) + sum over s of  (v_s log r_s  if s speaks,  n_s  if it is silent)
and the shares are a softmax of z. That is a product of experts (Hinton, 2002; logarithmic opinion pool) whose weights
are fitted, so sources that say the same thing for the same reason do not count twice. Each token that the target
chooses after a path that was asked about is one step of gradient descent on the negative log likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from paradraft.drafters.priors import DEPTHS, Weights, prior_of

Told = Sequence["dict[int, float] | None"]  # what each source says of one place, None or {} where it is silent

FAINTEST = 0.02  # a share below counts as not named
LIFTED = 0.05  # share times e**G from which a token is named nevertheless, where the noise is known
LEAST_REST = 1e-3
RATE, RATE_HALVED, LEAST_RATE = 0.03, 2000.0, 0.004  # of learning: at first, after how many steps, and at last
PULL = 2e-5  # towards the prior, per step
FARTHEST = 4.0  # a weight moves from its prior


@dataclass(slots=True)
class Blend:
    """A blended law and what learning needs of how it came about."""

    told: Told
    depth: int
    rests: list[float]  # log of what each source leaves to tokens that it does not name; 0 where it is silent
    shares: dict[int, float]
    none: float  # chance of a token that nobody names
    gumbel: dict[int, float] | None = None


class Pool:
    """The weights of one set of sources. Changes only in `learn`."""

    def __init__(self, names: Sequence[str]) -> None:
        """Start from the weights known for these sources."""
        self.names = tuple(names)
        self.num_steps = 0
        self._prior = prior_of(self.names)
        self.weights: Weights = self._prior.copy()

    def blend(self, told: Told, depth: int, gumbel: dict[int, float] | None = None) -> Blend:
        """Return the law of the next token at a depth.

        gumbel bends it towards the target's choice; then all tokens count that are told of (see `lifted`).
        """
        weights = self.weights
        faintest = FAINTEST if gumbel is None else 0.0
        rests: list[float] = []
        odds: dict[int, float] = {}  # of each token, against one that nobody names
        none = weights.depth[depth if depth < DEPTHS else DEPTHS - 1]
        for source, said in zip(weights.sources, told, strict=True):
            if not said:
                none += source.silent
                rests.append(0.0)
                continue
            rest = math.log(max(1.0 - sum(said.values()), LEAST_REST))
            rests.append(rest)
            miss = source.miss_slope * rest + source.miss
            none += source.rest_slope * rest - miss
            slope, hit = source.hit_slope, math.exp(source.hit - miss)
            for token, share in said.items():
                if share >= faintest:
                    odds[token] = odds.get(token, 1.0) * hit * share**slope
        if not odds:
            return Blend(told, depth, rests, {}, 1.0)
        if gumbel is not None:
            odds = {token: value * math.exp(weights.noise * gumbel[token]) for token, value in odds.items()}
        nobody = math.exp(none)
        total = nobody + sum(odds.values())
        shares = {token: value / total for token, value in odds.items()}
        return Blend(told, depth, rests, shares, nobody / total, gumbel)

    def learn(self, blend: Blend, token: int) -> None:
        """Take one step towards the token that the target chose here."""
        if not blend.shares:
            return
        errors = dict(blend.shares)
        none = blend.none
        if token in errors:
            errors[token] -= 1.0
        else:
            none -= 1.0
        self.num_steps += 1
        rate = max(RATE / math.sqrt(1.0 + self.num_steps / RATE_HALVED), LEAST_RATE)
        weights, prior = self.weights, self._prior
        depth = min(blend.depth, DEPTHS - 1)
        faintest = FAINTEST if blend.gumbel is None else 0.0
        weights.depth[depth] = _moved(weights.depth[depth], prior.depth[depth], rate * none)
        if blend.gumbel is not None:
            slope = sum([error * blend.gumbel[word] for word, error in errors.items()])
            weights.noise = _moved(weights.noise, prior.noise, rate * slope)
        for source, start, said, rest in zip(weights.sources, prior.sources, blend.told, blend.rests, strict=True):
            if not said:
                source.silent = _moved(source.silent, start.silent, rate * none)
                continue
            named, slope = 0.0, 0.0
            for word, share in said.items():
                if share >= faintest:
                    named += errors[word]
                    slope += errors[word] * math.log(share)
            unnamed = -none - named
            source.hit_slope = _moved(source.hit_slope, start.hit_slope, rate * slope)
            source.hit = _moved(source.hit, start.hit, rate * named)
            source.miss_slope = _moved(source.miss_slope, start.miss_slope, rate * rest * unnamed)
            source.miss = _moved(source.miss, start.miss, rate * unnamed)
            source.rest_slope = _moved(source.rest_slope, start.rest_slope, rate * rest * none)


def lifted(said: dict[int, float], gumbel: dict[int, float]) -> dict[int, float]:
    """Return the shares that are worth naming where the target's noise is known: faint ones only if it favours them."""
    return {
        token: share for token, share in said.items() if share >= FAINTEST or share * math.exp(gumbel[token]) >= LIFTED
    }


def _moved(weight: float, prior: float, step: float) -> float:
    gap = weight - prior
    gap -= PULL * gap + step
    return prior + (FARTHEST if gap > FARTHEST else -FARTHEST if gap < -FARTHEST else gap)
