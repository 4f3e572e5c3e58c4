"""How byte-level vocabularies in GGUF files cut text before merging, by the name in tokenizer.ggml.pre.

Each pattern cuts the pieces of the one before; what it matches and what lies between become pieces. A name stands
here only if its ids are tested to be the same as llama.cpp's.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Sequence, Split

from paradraft.core.errors import ModelError

_CONTRACTIONS = r"'s|'t|'re|'ve|'m|'ll|'d"
_WORDS = rf"{_CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
_MODERN = r"(?i:{0})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{1}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """One way to cut, and what llama.cpp ties to its name."""

    patterns: tuple[str, ...]
    ignores_merges: bool = False  # a piece that is a token as a whole is that token, whatever the merges say
    adds_bos: bool = False  # unless the file says otherwise


_DEFAULT = Cut(patterns=(r"[\p{P}\$\+<=>\^~\|]+", _WORDS, r"\p{N}+", r"[0-9][0-9][0-9]"))
_GPT2 = Cut(patterns=(_WORDS,))
_DIGITS_APART = Cut(patterns=(r"\p{N}", _WORDS))
_LLAMA3 = Cut(patterns=(_MODERN.format(_CONTRACTIONS, r"\p{N}{1,3}"),), ignores_merges=True, adds_bos=True)
_SMAUG = Cut(patterns=_LLAMA3.patterns)
_QWEN2 = Cut(patterns=(_MODERN.format(_CONTRACTIONS, r"\p{N}"),))
CUTS = {
    "default": _DEFAULT,
    "gpt-2": _GPT2,
    "phi-2": _GPT2,
    "mpt": _GPT2,
    "olmo": _GPT2,
    "smollm": _DIGITS_APART,
    "starcoder": _DIGITS_APART,
    "refact": _DIGITS_APART,
    "command-r": _DIGITS_APART,
    "codeshell": _DIGITS_APART,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "falcon3": _LLAMA3,
    "pixtral": _LLAMA3,
    "smaug-bpe": _SMAUG,
    "dbrx": _SMAUG,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "stablelm2": _QWEN2,
}


def cut_named(name: object, origin: str) -> Cut:
    """Return a cut by its name; raise ModelError for one that is missing or not known."""
    if not isinstance(name, str) or name not in CUTS:
        problem = "names no pre-tokenizer" if name is None else f"names the unknown pre-tokenizer {name!r}"
        raise ModelError(
            f"{origin}: tokenizer.ggml.pre {problem}; a guess would give other tokens than the model was trained on.",
            remedy=f"Use the model's safetensors folder, or a file with one of {', '.join(CUTS)}.",
        )
    return CUTS[name]


def pre_tokenizer_of(cut: Cut) -> PreTokenizer:
    """Return the cut as a pre-tokenizer that writes bytes as characters at the end."""
    splits: list[PreTokenizer] = [Split(Regex(pattern), "isolated") for pattern in cut.patterns]
    return Sequence([*splits, ByteLevel(add_prefix_space=False, use_regex=False)])
