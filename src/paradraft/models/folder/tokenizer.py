"""The tokenizer of a Hugging Face folder: tokenizer.json and the files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from paradraft.core.errors import ModelError
from paradraft.models.fast_tokenizer import FastTokenizer
from paradraft.models.folder.files import read_optional_json

_ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_EXTRA = ("additional_special_tokens", "extra_special_tokens")


def read_folder_tokenizer(folder: Path) -> FastTokenizer:
    """Return the tokenizer of a folder; raise ModelError if tokenizer.json is missing or damaged."""
    backend = _read_backend(folder)
    settings = read_optional_json(folder / "special_tokens_map.json")
    settings |= read_optional_json(folder / "tokenizer_config.json")
    named = {role: text for role in _ROLES if (text := _text(settings.get(role))) is not None}
    _mark_special(backend, [*named.values(), *_extra_tokens(settings)])
    return FastTokenizer(
        backend,
        eos_ids=_eos_ids(folder, backend, named),
        bos_id=backend.token_to_id(named["bos_token"]) if "bos_token" in named else None,
        named=named,
        chat_template=_chat_template(folder, settings),
        vocab_size=max(backend.get_vocab(with_added_tokens=True).values()) + 1,
    )


def _read_backend(folder: Path) -> Backend:
    file = folder / "tokenizer.json"
    if not file.is_file():
        slow = [name for name in ("tokenizer.model", "vocab.json", "spiece.model") if (folder / name).is_file()]
        found = f"only {', '.join(slow)}" if slow else "nothing in its place"
        raise ModelError(
            f"{folder} has no tokenizer.json ({found}).",
            remedy="Convert it once: transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER).",
        )
    try:
        backend = Backend.from_file(str(file))
    except Exception as error:  # tokenizers raises nothing narrower
        raise ModelError(f"{file} cannot be used ({error}).", remedy="Get it again from the model's source.") from error
    backend.no_truncation()
    backend.no_padding()
    return backend


def _mark_special(backend: Backend, texts: list[str]) -> None:
    """Make the tokens with a role special, as transformers does; ones that are not in the vocabulary stay out."""
    added = {str(token.content): token for token in backend.get_added_tokens_decoder().values()}
    plain = [text for text in texts if not (text in added and added[text].special)]
    known = [text for text in plain if backend.token_to_id(text) is not None]
    if known:
        backend.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in known])


def _extra_tokens(settings: Mapping[str, object]) -> list[str]:
    found: list[object] = []
    for key in _EXTRA:
        value = settings.get(key)
        found += value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
    return [text for entry in found if (text := _text(entry)) is not None]


def _text(entry: object) -> str | None:
    if isinstance(entry, dict):
        entry = entry.get("content")
    return entry if isinstance(entry, str) and entry else None


def _eos_ids(folder: Path, backend: Backend, named: Mapping[str, str]) -> tuple[int, ...]:
    """Return the ids that end an answer: the generation settings', else the configuration's, and the tokenizer's."""
    declared = read_optional_json(folder / "generation_config.json").get("eos_token_id")
    if declared is None:
        declared = read_optional_json(folder / "config.json").get("eos_token_id")
    ids = [declared] if isinstance(declared, int) else declared if isinstance(declared, list) else []
    own = backend.token_to_id(named["eos_token"]) if "eos_token" in named else None
    return tuple(dict.fromkeys(int(token) for token in [*ids, own] if isinstance(token, int)))


def _chat_template(folder: Path, settings: Mapping[str, object]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):  # named templates
        by_name = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = by_name.get("default")
    return template if isinstance(template, str) else None
