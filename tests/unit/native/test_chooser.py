"""The native choice against its numpy twin: the same token where it answers, none where rounding decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest

from paradraft.core.arrays import FloatArray, ints
from paradraft.core.errors import ConfigError, ProtocolError
from paradraft.core.largest import largest
from paradraft.core.records import RowSampling
from paradraft.core.sampling import SamplingParams
from paradraft.native.chooser import NativeChooser, find_chooser
from paradraft.verify.coupled import draw
from paradraft.verify.law import law_of
from paradraft.verify.noise import GumbelNoise
from support.native import needs_native
from support.native_passes import INSTRUCTION_SETS

pytestmark = needs_native

SIZES = (1, 2, 17, 255, 256, 257, 1023, 1025, 2100, 20_000)
TEXT_SIZE = 49_152
Rows = Callable[[np.random.Generator, int], np.ndarray]


def text_like(rng: np.random.Generator, size: int) -> np.ndarray:
    row = rng.standard_normal(size) * 2
    row[rng.integers(size, size=min(size, 6))] += rng.uniform(8, 16)
    return row


def one_hot(rng: np.random.Generator, size: int) -> np.ndarray:
    row = np.zeros(size)
    row[rng.integers(size)] = 1000.0
    return row


def disjoint(rng: np.random.Generator, size: int) -> np.ndarray:
    """Give two groups that are far apart, the higher one smaller than the head or not."""
    return np.where(rng.random(size) < rng.choice([0.01, 0.3]), 60.0, -60.0) + rng.standard_normal(size)


ROWS: dict[str, Rows] = {
    "random": lambda rng, size: rng.standard_normal(size) * rng.choice([0.01, 1, 10]),
    "text": text_like,
    "tied": lambda rng, size: rng.choice([0.0, 0.5, 1.0], size=size),
    "nearly tied": lambda rng, size: np.round(rng.standard_normal(size) * 1e-3, 6),
    "bf16": lambda rng, size: np.round(rng.standard_normal(size) * 16) / 4,
    "equal": lambda _, size: np.full(size, -3.25),
    "one hot": one_hot,
    "disjoint": disjoint,
    "large": lambda rng, size: rng.standard_normal(size) * 10.0 ** rng.integers(4, 38),
    "truncated": lambda rng, size: np.where(rng.random(size) < 0.5, -1e30, rng.standard_normal(size)),
}
CUTS = (
    {},
    {"top_p": 0.9},
    {"top_p": 1e-3},
    {"top_p": 0.9999},
    {"top_k": 1},
    {"top_k": 40, "top_p": 0.8, "min_p": 0.05},
    {"top_k": 256},
    {"top_k": 257, "top_p": 0.7},
    {"top_k": 700, "min_p": 0.3},
    {"min_p": 1.0},
    {"min_p": 1e-4, "top_p": 0.5},
    {"min_p": 1e-35},
)
TEMPERATURES = (1.0, 0.6, 1.7, 1e-5, 100.0)


def sampling(seed: int = 7, choice: int = 0, **params: float) -> RowSampling:
    return RowSampling(params=SamplingParams(**params), seed=seed, choice=choice, prompt_len=0, stop_ids=())  # type: ignore[arg-type]


def by_numpy(logits: FloatArray, row: RowSampling, position: int) -> int:
    return draw(law_of(logits, row, ints([])), GumbelNoise(row.seed, row.choice), position)


def cases(name: str) -> Iterator[tuple[FloatArray, RowSampling, int]]:
    rng = np.random.default_rng(sum(name.encode()))
    for size, cut in product(SIZES, CUTS):
        row = np.clip(ROWS[name](rng, size), -3e38, 3e38).astype(np.float32)
        temperature = float(rng.choice(TEMPERATURES))
        for _ in range(3):
            seed, choice, position = int(rng.integers(2**63)) * 2 + 1, int(rng.integers(4)), int(rng.integers(2**31))
            yield row, sampling(seed, choice, temperature=temperature, **cut), position


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_what_is_chosen_natively_is_what_numpy_chooses(name: str) -> None:
    choosers = [NativeChooser(instruction_set) for instruction_set in INSTRUCTION_SETS]
    answers = 0
    for row, given, position in cases(name):
        expected = by_numpy(row, given, position)
        for chooser in choosers:
            found = chooser.choose(row, given, position)
            assert found in (None, expected), (given, position)
            answers += found is not None
    assert answers > len(SIZES) * len(CUTS)


@pytest.mark.parametrize("cut", [{}, {"top_p": 0.9}, {"top_k": 50, "top_p": 0.95}, {"min_p": 0.05}])
def test_rows_as_of_text_are_nearly_always_answered(cut: dict[str, float]) -> None:
    rng, chooser, answers = np.random.default_rng(1), NativeChooser(), 0
    for position in range(60):
        row = text_like(rng, TEXT_SIZE).astype(np.float32)
        found = chooser.choose(row, sampling(temperature=0.8, **cut), position)
        if found is not None:
            answers += 1
            assert found == by_numpy(row, sampling(temperature=0.8, **cut), position)
    assert answers >= 55


def test_a_race_too_close_to_call_is_handed_back() -> None:
    """Give one token of two just the logit that makes both equally fast, then a little more or less."""
    times = np.exp(-GumbelNoise(7, 0).gumbel(ints([0, 1]), position=3))
    gap = float(np.log(times[1] / times[0]))
    chooser = NativeChooser()
    assert chooser.choose(np.array([0.0, gap], dtype=np.float32), sampling(), 3) is None
    assert chooser.choose(np.array([0.0, gap + 1e-3], dtype=np.float32), sampling(), 3) == 1
    assert chooser.choose(np.array([0.0, gap - 1e-3], dtype=np.float32), sampling(), 3) == 0


@pytest.mark.parametrize("name", ["random", "text", "tied", "nearly tied", "bf16", "equal", "disjoint", "truncated"])
@pytest.mark.parametrize("size", [257, 300, 2100, 20_000])
def test_draws_of_the_tail_are_numpys_too(name: str, size: int) -> None:
    rng, found = np.random.default_rng(size), []
    choosers = [NativeChooser(instruction_set) for instruction_set in INSTRUCTION_SETS]
    for position in range(40):
        row, given = ROWS[name](rng, size).astype(np.float32), sampling(temperature=1.5)
        expected = by_numpy(row, given, position)
        answers = [chooser.choose(row, given, position) for chooser in choosers]
        assert set(answers) <= {None, expected}
        found += [answer for answer in answers if answer is not None and answer not in largest(row, 256)[0]]
    if size >= 2100 and name in ("tied", "equal", "truncated"):
        assert len(found) > 10 * len(choosers)


def tail_of_two(gap: float) -> FloatArray:
    """Give a head of equal ids, and two ids behind it that have a weight."""
    row = np.full(3000, -80.0, dtype=np.float32)
    row[500:756] = 0.0
    row[[100, 2900]] = [-0.5, -0.5 + gap]
    return row


def test_a_race_of_the_tail_too_close_to_call_is_handed_back() -> None:
    def gap_at(position: int) -> float:
        times = np.exp(-GumbelNoise(7, 0).gumbel(ints([100, 2900]), position=position))
        return float(np.log(times[1] / times[0]))

    def is_close(position: int) -> bool:
        return abs(gap_at(position)) < 0.4 and by_numpy(tail_of_two(gap_at(position)), sampling(), position) in (
            100,
            2900,
        )

    position = next(position for position in range(5000) if is_close(position))
    chooser, gap = NativeChooser(), gap_at(position)
    assert chooser.choose(tail_of_two(gap), sampling(), position) is None
    assert chooser.choose(tail_of_two(gap + 1e-3), sampling(), position) == 2900
    assert chooser.choose(tail_of_two(gap - 1e-3), sampling(), position) == 100
    assert chooser.choose(tail_of_two(gap + 1e-3), sampling(top_k=2000), position) is None


@pytest.mark.parametrize(("cut", "at"), [("top_p", 1 / 1.5), ("min_p", 0.5)])
def test_a_winner_whose_place_in_the_law_hangs_on_rounding_is_handed_back(cut: str, at: float) -> None:
    """The second token has half the weight of the first: both cuts fall just between them."""
    row, chooser = np.array([0.0, np.log(0.5)], dtype=np.float32), NativeChooser()
    second_wins = next(position for position in range(100) if by_numpy(row, sampling(), position) == 1)
    first_wins = next(position for position in range(100) if by_numpy(row, sampling(), position) == 0)
    assert chooser.choose(row, sampling(**{cut: at}), second_wins) is None
    assert chooser.choose(row, sampling(**{cut: at}), first_wins) == 0
    within, without = (at + 1e-3, at - 1e-3) if cut == "top_p" else (at - 1e-3, at + 1e-3)
    assert chooser.choose(row, sampling(**{cut: within}), second_wins) == 1
    assert chooser.choose(row, sampling(**{cut: without}), second_wins) == 0


def test_a_head_whose_last_ids_hang_on_rounding_is_handed_back() -> None:
    """The 256th and the 257th have different logits, and weights that f32 can hardly tell apart."""
    row = np.zeros(300, dtype=np.float32)
    row[:255] = 1.0
    row[260] = 2e-7
    chooser = NativeChooser()
    assert all(chooser.choose(row, sampling(), position) is None for position in range(20))
    row[260] = 0.01
    assert any(chooser.choose(row, sampling(), position) is not None for position in range(20))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 700, 1023, 1024, 1999])
def test_logits_that_are_not_finite_are_handed_back(bad: float, place: int) -> None:
    row = np.zeros(2000, dtype=np.float32)
    row[5] = 50.0
    chooser = NativeChooser()
    assert chooser.choose(row, sampling(), 0) == 5
    row[place] = bad
    assert chooser.choose(row, sampling(), 0) is None
    with pytest.raises(ProtocolError, match="NaN or infinity"):
        by_numpy(row, sampling(), 0)


@pytest.mark.parametrize("instruction_set", INSTRUCTION_SETS)
@pytest.mark.parametrize("name", ROWS)
def test_the_largest_are_those_of_numpy(instruction_set: str, name: str) -> None:
    rng, chooser = np.random.default_rng(3), NativeChooser(instruction_set)
    for size, count in product(SIZES, (0, 1, 5, 100, 256, 3000)):
        row = ROWS[name](rng, size).astype(np.float32)
        (ids, values), (expected, of_them) = chooser.largest(row, count), largest(row, count)
        assert ids.tolist() == expected.tolist()
        assert values.tolist() == of_them.tolist()
        assert (ids.dtype, values.dtype) == (np.int32, np.float32)


def test_the_largest_of_masked_logits_are_those_of_numpy() -> None:
    row = np.full(3000, -np.inf, dtype=np.float32)
    row[[7, 2999]] = [1.0, 2.0]
    ids, values = NativeChooser().largest(row, 3)
    assert (ids.tolist(), values.tolist()) == ([2999, 7, 0], [2.0, 1.0, -np.inf])


def test_what_cannot_be_chosen_from_is_refused() -> None:
    chooser, row = NativeChooser(), np.zeros(8, dtype=np.float32)
    with pytest.raises(ProtocolError, match="describe no law"):
        chooser.choose(row, sampling(temperature=0.0), 0)
    for wrong in (row.astype(np.float64), row[::2], row.reshape(2, 4)):
        with pytest.raises(ProtocolError, match="stands where logits belong"):
            chooser.choose(wrong, sampling(), 0)
    with pytest.raises(ProtocolError, match="vocab_size is 0"):
        chooser.choose(row[:0], sampling(), 0)
    with pytest.raises(ConfigError, match="mmx"):
        NativeChooser("mmx")


def test_without_a_library_there_is_no_chooser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paradraft.native.library.find_library", lambda: None)
    assert find_chooser() is None
