from __future__ import annotations

import pytest

from paradraft.core.errors import AlignmentError
from paradraft.drafters.vocabulary import NO_ID, Difference, VocabularyMap, compare, require_same
from support.byte_tokenizer import ByteTokenizer
from support.piece_tokenizer import PieceTokenizer
from support.shifted_tokenizer import ShiftedTokenizer

TARGET = PieceTokenizer([b"the", b" cat", b" sat", b"ing"])


def test_the_same_vocabulary_passes() -> None:
    require_same(TARGET, PieceTokenizer([b"the", b" cat", b" sat", b"ing"]))
    assert compare(TARGET, TARGET).share_same == 1.0


def test_two_swapped_ids_of_vocabularies_of_one_size_are_refused_by_name() -> None:
    """Every token string is compared, not the sizes: ids that mean other strings would draft silent nonsense."""
    swapped = PieceTokenizer([b"the", b" sat", b" cat", b"ing"])
    assert swapped.vocab_size == TARGET.vocab_size
    with pytest.raises(AlignmentError) as caught:
        require_same(TARGET, swapped)
    assert "first is 3: \"b' cat'\" to the target, \"b' sat'\" to the drafter" in str(caught.value)
    assert f"2 of {TARGET.vocab_size} ids differ" in str(caught.value)


def test_a_single_differing_token_is_reported_with_the_overlap_and_a_way_out() -> None:
    other = PieceTokenizer([b"the", b" cat", b" sat", b"ed"])
    alignment = compare(TARGET, other)
    assert alignment.first == Difference(token=5, target_spelling="b'ing'", draft_spelling="b'ed'")
    assert alignment.num_differing == 1
    assert alignment.share_same == pytest.approx(1 - 1 / TARGET.vocab_size)
    assert alignment.num_shared == TARGET.vocab_size - 1
    with pytest.raises(AlignmentError, match="draft_vocabulary=mapped") as caught:
        require_same(TARGET, other)
    assert f"{TARGET.vocab_size - 1} tokens" in caught.value.remedy


def test_other_end_ids_are_refused_though_all_strings_agree() -> None:
    with pytest.raises(AlignmentError, match=r"end-of-sequence ids are \[257\] to the target, \[10\] to the drafter"):
        require_same(ByteTokenizer(), ByteTokenizer(eos_ids=(10,)))


def test_another_begin_id_and_other_control_tokens_are_refused() -> None:
    changed = PieceTokenizer([b"the", b" cat", b" sat", b"ing"])
    changed.bos_id = None
    assert "begin-of-sequence" in str(compare(TARGET, changed))
    tamed = PieceTokenizer([b"the", b" cat", b" sat", b"ing"])
    tamed.is_special = lambda token: False  # type: ignore[method-assign]
    assert "2 ids are control tokens to one model only, the first is 0" in str(compare(TARGET, tamed))


def test_a_padded_vocabulary_is_the_same_one() -> None:
    assert compare(ByteTokenizer(259), ByteTokenizer(320)).is_same


def test_the_map_pairs_tokens_by_bytes_in_both_directions() -> None:
    other = PieceTokenizer([b"ing", b" dog", b" cat"])
    mapping = VocabularyMap.between(TARGET, other)
    for token, partner in enumerate(mapping.to_target.tolist()):
        if partner != NO_ID:
            assert mapping.to_draft[partner] == token
            assert TARGET.token_bytes(partner) == other.token_bytes(token)
    assert mapping.to_target[other.encode(" dog")[0]] == NO_ID
    assert mapping.to_draft[TARGET.encode("the")[0]] == NO_ID
    assert mapping.num_mapped == 2 + 2 + 256


def test_end_and_begin_tokens_pair_by_role_where_their_names_differ() -> None:
    other = PieceTokenizer([b"x"], control=("<begin>", "<end>"))
    mapping = VocabularyMap.between(TARGET, other)
    assert mapping.to_target[:2].tolist() == [0, 1]


def test_a_control_token_never_pairs_with_the_same_spelling_in_text() -> None:
    other = PieceTokenizer([b"<s>"], control=("<a>", "<b>"))
    other.eos_ids, other.bos_id = (), None
    mapping = VocabularyMap.between(TARGET, other)
    assert mapping.to_draft[0] == NO_ID


def test_a_piece_wins_over_the_spelled_byte() -> None:
    class Spelled(PieceTokenizer):
        def spelling(self, token: int) -> str | None:
            return "<0x41>" if token == 2 else super().spelling(token)

        def token_bytes(self, token: int) -> bytes:
            return b"A" if token == 2 else super().token_bytes(token)

    mapping = VocabularyMap.between(TARGET, Spelled([b"?"]))
    target_a = TARGET.encode("A")[0]
    assert mapping.to_draft[target_a] != 2
    assert mapping.to_target[2] == NO_ID


def test_vocabularies_without_a_common_token_are_refused() -> None:
    with pytest.raises(AlignmentError, match="None of the drafter's 3 tokens"):
        VocabularyMap.require(ShiftedTokenizer(2), _Foreign(3))


class _Foreign(ShiftedTokenizer):
    def token_bytes(self, token: int) -> bytes:
        return f"foreign {token}".encode()
