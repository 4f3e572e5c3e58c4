"""The draft vocabulary: offsets and members say the same, and what they leave out is known."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from paradraft.core.errors import ModelError
from paradraft.nets.vocabulary import DraftVocabulary


@given(some.sets(some.integers(0, 49), min_size=1))
def test_offsets_and_members_name_the_same_tokens(ids: set[int]):
    vocabulary = DraftVocabulary.of(torch.tensor(list(ids)), 50)
    vocabulary.check(vocab_size=50, size=len(ids))
    assert set(vocabulary.ids.tolist()) == set(torch.nonzero(vocabulary.t2d).flatten().tolist()) == ids
    assert vocabulary.draft_ids(vocabulary.ids).tolist() == list(range(len(ids)))
    others = [token for token in range(50) if token not in ids]
    assert vocabulary.draft_ids(torch.tensor(others, dtype=torch.int64)).tolist() == [-1] * len(others)


def test_the_most_frequent_are_kept_and_those_that_must_be():
    counts = torch.tensor([5, 0, 9, 9, 1, 0, 7])
    assert DraftVocabulary.most_frequent(counts, 3).ids.tolist() == [2, 3, 6]
    assert DraftVocabulary.most_frequent(counts, 3, always=(1,)).ids.tolist() == [1, 2, 3]
    assert DraftVocabulary.most_frequent(torch.ones(6), 2).ids.tolist() == [0, 1]


def test_coverage_is_the_share_of_tokens_that_can_be_drafted():
    vocabulary = DraftVocabulary.of(torch.tensor([1, 3]), 6)
    assert vocabulary.coverage(torch.tensor([1, 1, 3, 5])) == 0.75
    assert vocabulary.coverage(torch.tensor([], dtype=torch.int64)) == 0.0
    assert DraftVocabulary.full(6).coverage(torch.arange(6)) == 1.0


@pytest.mark.parametrize(("ids", "size"), [([0, 6], 6), ([-1, 2], 6)], ids=["beyond the vocabulary", "below it"])
def test_ids_outside_the_vocabulary_are_refused(ids: list[int], size: int):
    with pytest.raises(ModelError, match="6 tokens"):
        DraftVocabulary.of(torch.tensor(ids), size)


def test_more_tokens_than_there_are_cannot_be_kept():
    with pytest.raises(ModelError, match="7 ids"):
        DraftVocabulary.most_frequent(torch.ones(6), 7)
    with pytest.raises(ModelError, match="2 of them"):
        DraftVocabulary.most_frequent(torch.ones(6), 1, always=(0, 1))


def test_tables_that_contradict_each_other_are_refused():
    good = DraftVocabulary.of(torch.tensor([1, 3]), 6)
    shifted = DraftVocabulary(good.d2t + 1, good.t2d)
    with pytest.raises(ModelError, match="same tokens"):
        shifted.check(vocab_size=6, size=2)
    with pytest.raises(ModelError, match=r"\(2,\)"):
        good.check(vocab_size=6, size=3)
    with pytest.raises(ModelError, match="int64"):
        DraftVocabulary(good.d2t.to(torch.int32), good.t2d).check(vocab_size=6, size=2)
