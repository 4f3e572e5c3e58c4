"""The vocabulary in a GGUF file's metadata, checked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from paradraft.core.errors import ModelError
from paradraft.models.gguf.header import GgufHeader, Value

_ID_KEYS = ("bos", "eos", "eot", "eom", "unknown", "padding")


class TokenType(IntEnum):
    """What a token is for (tokenizer.ggml.token_type)."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class GgufVocabulary:
    """Tokens by id, and what the file says about them."""

    origin: str
    model: str  # gpt2 (byte-level merges) or llama (sentencepiece merges by score)
    pre: Value | None
    tokens: list[str]
    types: list[int]
    merges: list[str]
    scores: list[float]
    ids: dict[str, int]  # of the tokens with a role: bos, eos, eot, eom, unknown, padding
    adds_bos: bool | None  # None: the file does not say
    adds_eos: bool
    adds_space: bool  # a space before the first word; sentencepiece only
    chat_template: str | None

    def used(self) -> dict[str, int]:
        """Return the ids of all tokens that are not unused."""
        return {token: index for index, token in enumerate(self.tokens) if self.types[index] != TokenType.UNUSED}

    def of_type(self, *types: TokenType) -> list[str]:
        """Return the tokens of these types by id."""
        return [token for token, kind in zip(self.tokens, self.types, strict=True) if kind in types]


def read_vocabulary(header: GgufHeader, path: Path) -> GgufVocabulary:
    """Return the vocabulary of a GGUF file; raise ModelError if it is missing or contradicts itself."""
    metadata = header.metadata
    tokens = _strings(metadata, "tokens", path)
    if len(set(tokens)) != len(tokens) or not tokens:
        raise _error(path, "tokens", "has doubles or is empty")
    types = metadata.get("tokenizer.ggml.token_type", [int(TokenType.NORMAL)] * len(tokens))
    scores = metadata.get("tokenizer.ggml.scores", [0.0] * len(tokens))
    for name, values in (("token_type", types), ("scores", scores)):
        if not isinstance(values, list) or len(values) != len(tokens):
            raise _error(path, name, f"is not one value for each of the {len(tokens)} tokens")
    template = metadata.get("tokenizer.chat_template")
    adds_bos = metadata.get("tokenizer.ggml.add_bos_token")
    return GgufVocabulary(
        origin=str(path),
        model=str(metadata.get("tokenizer.ggml.model", "")),
        pre=metadata.get("tokenizer.ggml.pre"),
        tokens=tokens,
        types=[int(kind) for kind in _list(types)],
        merges=_strings(metadata, "merges", path) if "tokenizer.ggml.merges" in metadata else [],
        scores=[float(score) for score in _list(scores)],
        ids=_special_ids(metadata, len(tokens), path),
        adds_bos=adds_bos if isinstance(adds_bos, bool) else None,
        adds_eos=metadata.get("tokenizer.ggml.add_eos_token") is True,
        adds_space=metadata.get("tokenizer.ggml.add_space_prefix", True) is True,
        chat_template=template if isinstance(template, str) else None,
    )


def _list(values: Value) -> list[bool] | list[int] | list[float] | list[str]:
    assert isinstance(values, list)
    return values


def _strings(metadata: dict[str, Value], name: str, path: Path) -> list[str]:
    values = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise _error(path, name, "is missing or holds no texts")
    return [str(value) for value in values]


def _special_ids(metadata: dict[str, Value], num_tokens: int, path: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in _ID_KEYS:
        value = metadata.get(f"tokenizer.ggml.{name}_token_id")
        if value is None:
            continue
        if not isinstance(value, int) or not 0 <= value < num_tokens:
            raise _error(path, f"{name}_token_id", f"is {value!r}, not the id of one of the {num_tokens} tokens")
        found[name] = value
    return found


def _error(path: Path, name: str, why: str) -> ModelError:
    return ModelError(f"{path}: tokenizer.ggml.{name} {why}.", remedy="Get the file again from its source.")
