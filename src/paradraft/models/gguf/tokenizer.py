"""Builds a tokenizer from GGUF metadata: byte-level merges (gpt2) and sentencepiece merges by score (llama)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tokenizers import AddedToken, decoders, normalizers
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing

from paradraft.core.errors import ModelError
from paradraft.models.fast_tokenizer import FastTokenizer
from paradraft.models.gguf.file import map_file
from paradraft.models.gguf.pretokenizers import cut_named, pre_tokenizer_of
from paradraft.models.gguf.vocabulary import GgufVocabulary, TokenType, read_vocabulary

_SPACE_MARK = "\u2581"
_ROLES = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}


def read_gguf_tokenizer(path: Path) -> FastTokenizer:
    """Return the tokenizer of a GGUF file; raise ModelError if it has none that can be rebuilt exactly."""
    data, header = map_file(path)
    data.close()
    return tokenizer_of(read_vocabulary(header, path))


def tokenizer_of(vocabulary: GgufVocabulary) -> FastTokenizer:
    """Return the tokenizer of a vocabulary; raise ModelError for kinds that cannot be rebuilt exactly."""
    builders = {"gpt2": _byte_level, "llama": _sentencepiece}
    if vocabulary.model not in builders:
        raise ModelError(
            f"{vocabulary.origin}: tokenizer.ggml.model={vocabulary.model!r} is not supported.",
            remedy=f"Use the model's safetensors folder, or a file with one of {', '.join(builders)}.",
        )
    backend, adds_bos = builders[vocabulary.model](vocabulary)
    _add_tokens(backend, vocabulary)
    _add_ends(backend, vocabulary, adds_bos=adds_bos if vocabulary.adds_bos is None else vocabulary.adds_bos)
    ids = vocabulary.ids
    return FastTokenizer(
        backend,
        eos_ids=tuple(dict.fromkeys(ids[name] for name in ("eos", "eot", "eom") if name in ids)),
        bos_id=ids.get("bos"),
        named={role: vocabulary.tokens[ids[name]] for name, role in _ROLES.items() if name in ids},
        chat_template=vocabulary.chat_template,
        vocab_size=len(vocabulary.tokens),
    )


def _byte_level(vocabulary: GgufVocabulary) -> tuple[Backend, bool]:
    """Return the backend, and whether texts begin with bos unless the file says otherwise."""
    cut = cut_named(vocabulary.pre, vocabulary.origin)
    used = vocabulary.used()
    backend = Backend(BPE(vocab=used, merges=_merges(vocabulary, used), ignore_merges=cut.ignores_merges))
    backend.pre_tokenizer = pre_tokenizer_of(cut)
    backend.decoder = decoders.ByteLevel()
    return backend, cut.adds_bos


def _merges(vocabulary: GgufVocabulary, used: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return the pairs that merge, made of the vocabulary's own strings: copies would take as much memory again."""
    own = dict(zip(used, used, strict=True))
    merges = []
    for merge in vocabulary.merges:
        at = merge.find(" ", 1)
        left, right = merge[:at], merge[at + 1 :]
        if left not in own or right not in own or left + right not in own:
            raise ModelError(
                f"{vocabulary.origin}: tokenizer.ggml.merges joins {left!r} and {right!r}, which are no tokens.",
                remedy="Get the file again from its source.",
            )
        merges.append((own[left], own[right]))
    return merges


def _sentencepiece(vocabulary: GgufVocabulary) -> tuple[Backend, bool]:
    """Return the backend, and whether texts begin with bos unless the file says otherwise."""
    unknown = vocabulary.ids.get("unknown")
    model = BPE(
        vocab=vocabulary.used(),
        merges=merges_by_score(vocabulary),
        unk_token=None if unknown is None else vocabulary.tokens[unknown],
        fuse_unk=True,
        byte_fallback=bool(vocabulary.of_type(TokenType.BYTE)),
    )
    backend = Backend(model)
    mark_spaces = normalizers.Replace(" ", _SPACE_MARK)
    restore = [decoders.Replace(_SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    if vocabulary.adds_space:
        backend.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE_MARK), mark_spaces])
        backend.decoder = decoders.Sequence([*restore, decoders.Strip(" ", 1, 0)])
    else:
        backend.normalizer = normalizers.Sequence([mark_spaces])
        backend.decoder = decoders.Sequence(restore)
    return backend, True


def merges_by_score(vocabulary: GgufVocabulary) -> list[tuple[str, str]]:
    """Return the merges that sentencepiece would make: any two tokens that form a token, the best score first."""
    pieces = {
        token: vocabulary.scores[index]
        for index, token in enumerate(vocabulary.tokens)
        if vocabulary.types[index] == TokenType.NORMAL
    }
    found = [
        (pieces[token], token[:cut], token[cut:])
        for token in pieces
        for cut in range(1, len(token))
        if token[:cut] in pieces and token[cut:] in pieces
    ]
    found.sort(key=lambda merge: -merge[0])
    return [(left, right) for _, left, right in found]


def _add_tokens(backend: Backend, vocabulary: GgufVocabulary) -> None:
    special = vocabulary.of_type(TokenType.CONTROL, TokenType.UNKNOWN)
    backend.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    defined = vocabulary.of_type(TokenType.USER_DEFINED)
    backend.add_tokens([AddedToken(text, special=False, normalized=False) for text in defined])


def _add_ends(backend: Backend, vocabulary: GgufVocabulary, *, adds_bos: bool) -> None:
    before = [vocabulary.ids["bos"]] if adds_bos and "bos" in vocabulary.ids else []
    after = [vocabulary.ids["eos"]] if vocabulary.adds_eos and "eos" in vocabulary.ids else []
    if not before and not after:
        return
    parts = [*(vocabulary.tokens[token] for token in before), "$A", *(vocabulary.tokens[token] for token in after)]
    ends = [(vocabulary.tokens[token], token) for token in {*before, *after}]
    backend.post_processor = TemplateProcessing(single=parts, special_tokens=ends)
