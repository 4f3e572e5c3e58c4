"""A draft model with another tokenizer: other token counts, other ids, same text."""

from __future__ import annotations

import pytest

from paradraft.core.sampling import SamplingParams
from paradraft.drafters.model import ModelDrafter
from paradraft.drafters.vocabulary import VocabularyMap
from paradraft.kv.pages import PageCache
from support.drafting import RowText, propose
from support.engines import build_engine, ids_of, request, run
from support.piece_tokenizer import PieceTokenizer
from support.stub_target import Law, StubTarget, hashed_law

FINE = PieceTokenizer([b"th"])
COARSE = PieceTokenizer([b"the", b" the", b" cat", b" sat", b"  "], puts_begin=True)
PROMPT = "the cat  sat the cat sat "
DRAFT_SALT = 9


def mapped_drafter(target: PieceTokenizer, draft: PieceTokenizer, law: Law | None = None) -> ModelDrafter:
    size = draft.vocab_size
    return ModelDrafter(
        target=StubTarget(law or hashed_law(size, salt=DRAFT_SALT), vocab_size=size, num_pages=512, page_size=4),
        pages=PageCache(num_pages=512, page_size=4),
        vocab_size=target.vocab_size,
        mapping=VocabularyMap.require(target, draft),
    )


@pytest.mark.parametrize(("target", "draft"), [(FINE, COARSE), (COARSE, FINE)], ids=["more ids", "fewer ids"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_prompts_of_different_lengths_in_the_two_vocabularies_work(
    target: PieceTokenizer, draft: PieceTokenizer, temperature: float
) -> None:
    """A prompt of 23 target ids may be 8 draft ids, and the other way round; the answer is plain decoding's."""
    prompt = target.encode(PROMPT)
    assert abs(len(prompt) - len(draft.encode(PROMPT))) > 10
    law = hashed_law(target.vocab_size)
    options = {"law": law, "vocab_size": target.vocab_size}
    params = SamplingParams(temperature=temperature, max_tokens=24)
    plain = ids_of(run(build_engine(**options), request("plain", prompt, params))["plain", 0])
    drafter = mapped_drafter(target, draft)
    events = run(build_engine(drafter, **options), request("drafted", prompt, params))["drafted", 0]
    assert ids_of(events) == plain
    assert events[-1].stats is not None
    assert events[-1].stats.drafted > 20


def test_no_begin_token_creeps_into_the_answer_over_many_rounds() -> None:
    """The text is never encoded as if it began anew, with a begin token or with its spaces cleaned up."""
    prompt = FINE.encode("the  cat sat ")
    law = hashed_law(FINE.vocab_size)
    drafter = mapped_drafter(FINE, COARSE)
    params = SamplingParams(temperature=0.0, max_tokens=60)
    engine = build_engine(drafter, law=law, vocab_size=FINE.vocab_size)
    answer = ids_of(run(engine, request("only", prompt, params))["only", 0])
    plain = build_engine(law=law, vocab_size=FINE.vocab_size)
    assert answer == ids_of(run(plain, request("only", prompt, params))["only", 0])
    assert b"".join(map(FINE.token_bytes, answer)) == b"".join(
        map(FINE.token_bytes, ids_of(run(plain, request("again", prompt, params))["again", 0]))
    )


def test_drafts_are_the_draft_models_choice_among_shared_tokens() -> None:
    law = hashed_law(COARSE.vocab_size, salt=DRAFT_SALT)
    drafter = mapped_drafter(FINE, COARSE, law)
    known = FINE.encode(PROMPT)
    drafts = propose(drafter, RowText(tokens=known), nodes=4)[0]
    mapping = VocabularyMap.require(FINE, COARSE)
    context = COARSE.encode(PROMPT)
    for token, _ in drafts:
        logits = law(tuple(context))
        mapped = [place for place in logits.argsort()[::-1].tolist() if mapping.to_target[place] >= 0]
        assert token == mapping.to_target[mapped[0]]
        context.append(mapped[0])
    assert len(drafts) == 4


def test_a_word_that_is_still_being_written_does_not_stay_in_the_cache() -> None:
    """Its ids may change with the next letter: a drafter that grew with the text drafts like one that starts here."""
    history = FINE.encode("the cat sat the cat")
    drafter = mapped_drafter(FINE, COARSE)
    for length in range(1, len(history) + 1):
        row = RowText(tokens=history[:length], prompt_len=1)
        assert propose(drafter, row, nodes=3) == propose(mapped_drafter(FINE, COARSE), row, nodes=3)


def test_a_drafter_that_speaks_the_same_text_is_accepted_across_tokenizers() -> None:
    """Two letter tokenizers with different ids and laws that agree on the text: every draft stands."""
    target, draft = PieceTokenizer([]), PieceTokenizer([], control=("<a>", "<b>", "<c>"))
    wanted = b"abcdefghij" * 6

    def speaker(tokenizer: PieceTokenizer) -> Law:
        def law(prefix: tuple[int, ...]):  # type: ignore[no-untyped-def]
            logits = hashed_law(tokenizer.vocab_size, spread=0.1)(prefix)
            logits[tokenizer.encode(chr(wanted[len(prefix)]))[0]] = 9.0
            return logits

        return law

    drafter = mapped_drafter(target, draft, speaker(draft))
    engine = build_engine(drafter, law=speaker(target), vocab_size=target.vocab_size, gamma=4, nodes=4)
    params = SamplingParams(temperature=0.0, max_tokens=20)
    last = run(engine, request("only", target.encode("abcde"), params))["only", 0][-1]
    assert last.stats is not None
    assert last.stats.tau == 5.0
