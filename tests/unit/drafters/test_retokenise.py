"""A drafter with another tokenizer sees the same bytes, whatever the tokens, and no begin token twice."""

from __future__ import annotations

import pytest

from paradraft.core.arrays import ints
from paradraft.drafters.retokenise import MAX_OPEN, Encoder, MappedText
from paradraft.drafters.vocabulary import VocabularyMap
from support.piece_tokenizer import PieceTokenizer

WORDS = [b"the", b" cat", b" sat", b" on", b" mat", b"  ", b".", b"\n\n"]
LETTERS = PieceTokenizer([])
WORDY = PieceTokenizer(WORDS)
SENTENCEPIECE = PieceTokenizer([b" the", *WORDS], puts_space=True, puts_begin=True)
TEXTS = [
    "the cat sat on the mat. ",
    "the  cat  sat",
    " leading, and trailing ",
    "caf\u00e9 \u732b\u304c \U0001f408!",
    "",
    "a\n\n b",
]


def text_between(target: PieceTokenizer, draft: PieceTokenizer) -> MappedText:
    mapping = VocabularyMap.require(target, draft)
    return MappedText(mapping, Encoder(draft, mapping.draft_pieces))


def plain_bytes(draft: PieceTokenizer, text: MappedText) -> bytes:
    return b"".join(draft.token_bytes(token) for token in text.ids.tolist() if not draft.is_special(token))


@pytest.mark.parametrize("draft", [LETTERS, WORDY, SENTENCEPIECE], ids=["letters", "words", "sentencepiece"])
@pytest.mark.parametrize("target", [LETTERS, WORDY], ids=["from letters", "from words"])
@pytest.mark.parametrize("text", TEXTS)
def test_every_prefix_arrives_byte_for_byte(target: PieceTokenizer, draft: PieceTokenizer, text: str) -> None:
    """Spaces are neither cleaned up nor lost, and half a character is passed on as the bytes it has."""
    history = target.encode(text)
    mapped = text_between(target, draft)
    for length in range(1, len(history) + 1):
        mapped.follow(ints(history[:length]))
        wanted = b"".join(target.token_bytes(token) for token in history[:length])
        assert plain_bytes(draft, mapped) in (wanted, b" " + wanted if draft is SENTENCEPIECE else wanted)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_begin_token_stands_at_the_start_and_nowhere_else(steps: int) -> None:
    history = WORDY.encode("the cat sat on the mat. the  cat ")
    mapped = text_between(WORDY, SENTENCEPIECE)
    for length in range(1, len(history) + 1, steps):
        mapped.follow(ints(history[:length]))
        assert mapped.ids[0] == 0
        assert (mapped.ids[1:] != 0).all()


def test_the_targets_own_begin_token_is_not_doubled() -> None:
    mapped = text_between(WORDY, SENTENCEPIECE)
    mapped.follow(ints([0, *WORDY.encode("the cat")]))
    assert mapped.ids.tolist() == SENTENCEPIECE.encode("the cat")


def test_control_tokens_pass_through_the_map() -> None:
    mapped = text_between(WORDY, LETTERS)
    mapped.follow(ints([*WORDY.encode("the cat"), 1, *WORDY.encode("the")]))
    assert mapped.ids.tolist() == [*LETTERS.encode("the cat"), 1, *LETTERS.encode("the")]


def test_control_tokens_without_partner_are_left_out() -> None:
    target = PieceTokenizer(WORDS, control=("<s>", "</s>", "<tool>"))
    mapped = text_between(target, LETTERS)
    mapped.follow(ints([*target.encode("the"), 2, *target.encode(".")]))
    assert mapped.ids.tolist() == LETTERS.encode("the.")


def test_text_that_spells_a_control_token_stays_text() -> None:
    target = PieceTokenizer(WORDS, control=("<begin>", "<end>"))
    mapped = text_between(target, LETTERS)
    mapped.follow(ints(target.encode("a </s> b")))
    assert plain_bytes(LETTERS, mapped) == b"a </s> b"
    assert not any(LETTERS.is_special(token) for token in mapped.ids.tolist())


def test_stable_ids_stay_as_they_are_and_all_but_the_last_word_becomes_stable() -> None:
    history = LETTERS.encode("the cat sat on the mat. the cat sat")
    mapped = text_between(LETTERS, WORDY)
    stable: list[int] = []
    for length in range(1, len(history) + 1):
        mapped.follow(ints(history[:length]))
        ids = mapped.ids.tolist()
        assert ids[: len(stable)] == stable
        assert mapped.num_stable >= len(stable)
        stable = ids[: mapped.num_stable]
    assert stable == WORDY.encode("the cat sat on the mat. the cat")
    assert mapped.ids.tolist() == WORDY.encode("the cat sat on the mat. the cat sat")


def test_an_endless_word_does_not_stay_open() -> None:
    history = LETTERS.encode("\u732b" * 400)
    mapped = text_between(LETTERS, WORDY)
    for length in range(1, len(history) + 1):
        mapped.follow(ints(history[:length]))
        assert len(mapped.ids) - mapped.num_stable <= MAX_OPEN
    assert plain_bytes(WORDY, mapped) == ("\u732b" * 400).encode()


def test_bytes_that_are_no_text_are_spelled_out() -> None:
    broken = [LETTERS.encode("a")[0], LETTERS.vocab_size - 1, LETTERS.vocab_size - 1, LETTERS.encode("b")[0]]
    mapped = text_between(LETTERS, WORDY)
    mapped.follow(ints(broken))
    assert plain_bytes(WORDY, mapped) == b"a\xff\xffb"


def test_a_long_history_at_once_and_token_by_token_give_the_same_ids() -> None:
    history = WORDY.encode("the cat sat on the mat. " * 40)
    at_once, stepwise = text_between(WORDY, LETTERS), text_between(WORDY, LETTERS)
    at_once.follow(ints(history))
    for length in range(1, len(history) + 1):
        stepwise.follow(ints(history[:length]))
    assert at_once.ids.tolist() == stepwise.ids.tolist()
