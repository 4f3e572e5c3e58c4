"""Whether a draft model speaks the target's vocabulary, id by id, and a map between the two where it does not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from paradraft.core.arrays import IntArray
from paradraft.core.errors import AlignmentError
from paradraft.core.ports import Tokenizer

NO_ID = -1
_BYTE_SPELLING = re.compile(r"<0x[0-9A-Fa-f]{2}>")


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One id that does not mean the same to both models; None: the id is unused there."""

    token: int
    target_spelling: str | None
    draft_spelling: str | None

    def __str__(self) -> str:
        return f"{self.token}: {self.target_spelling!r} to the target, {self.draft_spelling!r} to the drafter"


@dataclass(frozen=True, kw_only=True, slots=True)
class Alignment:
    """How two vocabularies compare. Special ids differ where one model treats an id as a control token alone."""

    num_ids: int  # of the larger vocabulary
    num_differing: int
    first: Difference | None
    special: tuple[str, ...]  # what differs in end, begin and control ids, in words
    num_shared: int  # tokens that both have, whatever their ids

    @property
    def is_same(self) -> bool:
        """Whether the draft model's ids can be used as the target's."""
        return not self.num_differing and not self.special

    @property
    def share_same(self) -> float:
        """Return the share of ids that mean the same."""
        return 1.0 - self.num_differing / self.num_ids if self.num_ids else 1.0

    def __str__(self) -> str:
        if self.is_same:
            return f"all {self.num_ids} ids mean the same to both models"
        parts = list(self.special)
        if self.first is not None:
            share = f"{1.0 - self.share_same:.1%}"
            parts.append(f"{self.num_differing} of {self.num_ids} ids differ ({share}), the first is {self.first}")
        return "; ".join(parts)


def compare(target: Tokenizer, draft: Tokenizer) -> Alignment:
    """Compare the special ids and every token string of two vocabularies."""
    size = max(target.vocab_size, draft.vocab_size)
    first: Difference | None = None
    num_differing = 0
    for token in range(size):
        ours, theirs = _spelling(target, token), _spelling(draft, token)
        if ours != theirs:
            num_differing += 1
            first = first or Difference(token=token, target_spelling=ours, draft_spelling=theirs)
    special = tuple(_special_differences(target, draft))
    is_same = not num_differing and not special
    return Alignment(
        num_ids=size,
        num_differing=num_differing,
        first=first,
        special=special,
        num_shared=size if is_same else VocabularyMap.between(target, draft).num_mapped,
    )


def require_same(target: Tokenizer, draft: Tokenizer) -> None:
    """Raise AlignmentError, with the first differing id and both spellings, unless every id means the same."""
    alignment = compare(target, draft)
    if not alignment.is_same:
        share = alignment.num_shared / max(target.vocab_size, 1)
        raise AlignmentError(
            f"The drafter does not speak the target's vocabulary: {alignment}.",
            remedy="Use a draft model with the target's tokenizer, or set draft_vocabulary=mapped: "
            f"{alignment.num_shared} tokens ({share:.0%} of the target's) are in both, and mapped drafts are safe, "
            "since the target checks each of them.",
        )


@dataclass(frozen=True, slots=True, eq=False)
class VocabularyMap:
    """Which ids of two vocabularies stand for the same bytes, one to one.

    Control tokens pair by spelling, and the first end and begin tokens with each other. Ids without a partner have
    NO_ID; drafts are restricted to the others, which keeps them lossless (token-level intersection).
    """

    target: Tokenizer
    draft: Tokenizer
    to_target: IntArray  # [draft vocabulary]
    to_draft: IntArray  # [target vocabulary]
    draft_pieces: Mapping[bytes, int]  # the drafter's tokens of text by their bytes

    @property
    def num_mapped(self) -> int:
        """Return the number of pairs."""
        return int((self.to_target != NO_ID).sum())

    @staticmethod
    def between(target: Tokenizer, draft: Tokenizer) -> VocabularyMap:
        """Return the map between two vocabularies; it may be empty."""
        to_target = np.full(draft.vocab_size, NO_ID, dtype=np.int32)
        to_draft = np.full(target.vocab_size, NO_ID, dtype=np.int32)
        meanings, draft_meanings = _meanings(target), _meanings(draft)
        for meaning, token in draft_meanings.items():
            partner = meanings.get(meaning)
            if partner is not None:
                to_target[token], to_draft[partner] = partner, token
        for ours, theirs in _roles(target, draft):
            if to_draft[ours] == NO_ID and to_target[theirs] == NO_ID:
                to_target[theirs], to_draft[ours] = ours, theirs
        pieces = {value: token for (is_control, value), token in draft_meanings.items() if not is_control}
        return VocabularyMap(target, draft, to_target, to_draft, MappingProxyType(pieces))

    @staticmethod
    def require(target: Tokenizer, draft: Tokenizer) -> VocabularyMap:
        """Return the map; raise AlignmentError if the vocabularies have nothing in common."""
        mapping = VocabularyMap.between(target, draft)
        if not mapping.num_mapped:
            raise AlignmentError(
                f"None of the drafter's {draft.vocab_size} tokens is one of the target's {target.vocab_size}.",
                remedy="Use another draft model.",
            )
        return mapping


def _meanings(tokenizer: Tokenizer) -> dict[tuple[bool, bytes], int]:
    """Return the id of each meaning: (is control, bytes). Pieces of text win over bytes written as <0xNN>."""
    plain: dict[tuple[bool, bytes], int] = {}
    spare: dict[tuple[bool, bytes], int] = {}
    for token in range(tokenizer.vocab_size):
        spelling = tokenizer.spelling(token)
        value = b"" if spelling is None else tokenizer.token_bytes(token)
        if value:
            is_byte = spelling is not None and len(spelling) == 6 and _BYTE_SPELLING.fullmatch(spelling)
            ids = spare if is_byte else plain
            ids.setdefault((tokenizer.is_special(token), value), token)
    return spare | plain


def _roles(target: Tokenizer, draft: Tokenizer) -> Iterator[tuple[int, int]]:
    if target.eos_ids and draft.eos_ids:
        yield target.eos_ids[0], draft.eos_ids[0]
    if target.bos_id is not None and draft.bos_id is not None:
        yield target.bos_id, draft.bos_id


def _spelling(tokenizer: Tokenizer, token: int) -> str | None:
    return tokenizer.spelling(token) if token < tokenizer.vocab_size else None


def _special_differences(target: Tokenizer, draft: Tokenizer) -> Iterator[str]:
    if sorted(target.eos_ids) != sorted(draft.eos_ids):
        yield f"end-of-sequence ids are {list(target.eos_ids)} to the target, {list(draft.eos_ids)} to the drafter"
    if target.bos_id != draft.bos_id:
        yield f"the begin-of-sequence id is {target.bos_id} to the target, {draft.bos_id} to the drafter"
    shared = range(min(target.vocab_size, draft.vocab_size))
    differing = [token for token in shared if target.is_special(token) != draft.is_special(token)]
    if differing:
        yield f"{len(differing)} ids are control tokens to one model only, the first is {differing[0]}"
