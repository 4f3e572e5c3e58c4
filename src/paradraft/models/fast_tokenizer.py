"""Text to ids and back: the port over the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tokenizers import Tokenizer as Backend

from paradraft.core.arrays import IntArray
from paradraft.core.errors import ModelError, RequestRefused
from paradraft.models.chat_template import ChatTemplate
from paradraft.models.token_bytes import bytes_of, spelling_of


class FastTokenizer:
    """Implements core.ports.Tokenizer.

    named: the tokens with a role (bos_token, eos_token, ...) by role, which chat templates may use.
    vocab_size counts ids from 0 to the largest, unused ones included.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        eos_ids: tuple[int, ...],
        bos_id: int | None,
        named: Mapping[str, str],
        chat_template: str | None,
        vocab_size: int,
    ) -> None:
        """Take the parts; raise ModelError if the vocabulary is of a kind whose bytes are not known."""
        self.backend = backend
        self.eos_ids = eos_ids
        self.bos_id = bos_id
        self.named = dict(named)
        self.chat_template = chat_template
        self.vocab_size = vocab_size
        added = backend.get_added_tokens_decoder()
        self._special = {token: str(entry.content) for token, entry in added.items() if entry.special}
        self._spelling = spelling_of(backend)
        self._template: ChatTemplate | None = None

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """Return the ids of a text; special tokens written out in it become themselves.

        Raises RequestRefused for a text that is no valid Unicode.
        """
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RequestRefused(
                f"The text has half a character (a lone surrogate) at {error.start}.", remedy="Send valid Unicode."
            ) from error
        ids: list[int] = self.backend.encode(text, add_special_tokens=add_special).ids
        return ids

    def decode(self, ids: list[int] | IntArray, *, skip_special: bool = True) -> str:
        """Return the text of ids; bytes that make no character become U+FFFD, unused ids nothing."""
        text: str = self.backend.decode([int(token) for token in ids], skip_special_tokens=skip_special)
        return text

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes a token stands for; special tokens give their spelling, unused ids nothing."""
        if token in self._special:
            return self._special[token].encode("utf-8")
        text = self.spelling(token)
        return b"" if text is None else bytes_of(text, self._spelling)

    def is_special(self, token: int) -> bool:
        """Whether the token is a control token that is left out of text."""
        return token in self._special

    def spelling(self, token: int) -> str | None:
        """Return the vocabulary string of an id, None for an unused one."""
        text: str | None = self.backend.id_to_token(token) if token >= 0 else None
        return text

    @property
    def template_knows_tools(self) -> bool:
        """Whether there is a chat template that writes descriptions of tools."""
        return self.chat_template is not None and self._compiled().knows_tools

    def render_chat(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        tools: Sequence[Mapping[str, object]] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """Return the conversation as the model's chat template writes it, its special tokens included.

        Encode the result with add_special=False: a template writes the first token itself.
        Raises ModelError if the model has no template, RequestRefused if the template refuses the messages.
        """
        return self._compiled().render(messages, tools=tools, add_generation_prompt=add_generation_prompt)

    def _compiled(self) -> ChatTemplate:
        if self.chat_template is None:
            raise ModelError(
                "The model has no chat template, so it does not take messages.",
                remedy="Send plain text, or use an instruction-tuned model.",
            )
        if self._template is None:
            self._template = ChatTemplate(self.chat_template, self.named)
        return self._template
