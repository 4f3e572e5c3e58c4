"""What contexts leave goes to the few frequent tokens that the target's noise favours."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paradraft.core.arrays import ints
from paradraft.core.records import RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.drafters.coupling import Coupling
from paradraft.drafters.guesses import MAX_SHARES
from paradraft.drafters.table.count import CountedText, count_table
from paradraft.drafters.table.drafter import TableGuesses
from paradraft.drafters.table.frequent import NUM_WINNERS, Frequent, frequent_tokens
from paradraft.drafters.table.lookup import TableLookup
from paradraft.verify.noise import GumbelNoise

VOCAB = 600
WORDS = np.random.default_rng(3).zipf(1.3, 20_000) % VOCAB
TABLE = count_table([CountedText(ids=ints(WORDS))], vocab_size=VOCAB)


def coupling(seed: int, start: int = 9) -> Coupling:
    params = SamplingParams(temperature=1.0)
    return Coupling(RowSampling(params=params, seed=seed, choice=2, prompt_len=3, stop_ids=()), start)


def test_tokens_are_as_frequent_as_they_were_seen() -> None:
    counts = np.bincount(WORDS[:-1], minlength=VOCAB)
    frequent = frequent_tokens(TABLE.orders[0], VOCAB)
    shares = dict(zip(frequent.ids.tolist(), np.exp(frequent.log_shares).tolist(), strict=True))
    assert shares == pytest.approx({token: counts[token] / counts.sum() for token in shares})
    assert min(counts[token] for token in shares) >= max(np.delete(counts, frequent.ids), default=0)


def test_an_empty_table_has_no_frequent_tokens() -> None:
    empty = count_table([], vocab_size=VOCAB)
    assert TableLookup(empty).shares([1, 2], None, coupling(1).at(0)) == {}


def test_winners_are_the_first_in_the_targets_race() -> None:
    ids, shares = ints(range(40)), np.arange(1.0, 41.0) / 820.0
    for seed in range(20):
        keys = np.log(shares) + GumbelNoise(seed, 2).gumbel(ids, position=11)
        found = Frequent(ids, np.log(shares)).winners(coupling(seed).at(2))
        assert set(found) == set(np.argsort(-keys)[:NUM_WINNERS].tolist())
        assert list(found.values()) == pytest.approx([shares[token] for token in found])


def test_winners_are_the_same_whether_a_position_is_looked_at_alone_or_ahead() -> None:
    ids, shares = ints(range(40)), np.arange(1.0, 41.0) / 820.0
    ahead, alone = Frequent(ids, np.log(shares)), Frequent(ids, np.log(shares))
    ahead.winners(coupling(3).at(0))
    for depth in range(1, 40):
        noise = coupling(3).at(depth)
        found = ahead.winners(noise)
        expected = GumbelNoise(3, 2).gumbel(ints(list(found)), position=9 + depth)
        assert found == alone.winners(coupling(3, 9 + depth).at(0))
        assert list(map(noise.of(found).get, found)) == pytest.approx(expected.tolist())


def test_noise_of_a_position_is_the_targets_however_it_is_asked_for() -> None:
    expected = GumbelNoise(7, 2).gumbel(ints([5, 6, 7]), position=12)
    noise = coupling(7)
    assert noise.gumbel([6], 3) == pytest.approx([expected[1]])
    assert noise.gumbel([7, 6, 5], 3) == pytest.approx(expected[::-1].tolist())
    assert coupling(7, start=12).gumbel([5], 0) == pytest.approx([expected[0]])
    assert coupling(8).gumbel([5], 3) != pytest.approx([expected[0]])
    many = list(range(100, 200))
    assert noise.gumbel(many, 3) == pytest.approx(GumbelNoise(7, 2).gumbel(ints(many), position=12).tolist())


def test_a_table_names_the_tokens_that_the_target_would_choose_first() -> None:
    """Its law has all tokens that contexts name and the winners among frequent ones; of these the first in the race."""
    lookup, context = TableLookup(TABLE), tuple(WORDS[500:494:-1].tolist())
    plain = lookup.shares(context, None)
    lucky = 0
    for seed in range(30):
        shares = TableGuesses(lookup, None, context, coupling(seed)).shares(context)
        assert 0.0 < sum(shares.values()) <= 1.0 + 1e-9
        assert len(shares) <= MAX_SHARES
        gumbel = coupling(seed).at(0).of([*shares, *plain])
        last = min(shares[token] * math.exp(gumbel[token]) for token in shares)
        if len(shares) == MAX_SHARES:
            assert all(token in shares or plain[token] * math.exp(gumbel[token]) <= last * 1.001 for token in plain)
        lucky += len(shares.keys() - plain.keys())
    assert lucky > 30


def test_positions_further_down_have_noise_of_their_own() -> None:
    lookup, context = TableLookup(TABLE), tuple(WORDS[500:494:-1].tolist())
    guesses, other = (TableGuesses(lookup, None, context, coupling(5, start)) for start in (9, 10))
    below = guesses.descend(guesses.root(), 3)
    assert isinstance(below, tuple)
    assert guesses.shares(below) == other.shares(below[:6]) != guesses.shares(guesses.root())


def test_sampled_texts_are_foretold_better_than_without_frequent_tokens() -> None:
    """The target's law is a mixture that no context tells of: its choices are named far more often."""
    frequent = np.bincount(WORDS, minlength=VOCAB) / len(WORDS)
    lookup, context = TableLookup(TABLE), tuple(WORDS[500:494:-1].tolist())
    plain = lookup.shares(context, None)
    hits = {"plain": 0, "coupled": 0}
    for seed in range(300):
        chosen = GumbelNoise(seed, 2).choose(frequent, None, position=9, stream=0)
        hits["plain"] += chosen in plain
        hits["coupled"] += chosen in TableGuesses(lookup, None, context, coupling(seed)).shares(context)
    assert hits["coupled"] > 1.3 * hits["plain"]
