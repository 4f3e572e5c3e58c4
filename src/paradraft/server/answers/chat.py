"""Answers of /v1/chat/completions."""

from __future__ import annotations

import secrets
import string
from collections.abc import Sequence

from paradraft.core.events import Logprob, TokenEvent, TokenLogprobs
from paradraft.core.ports import Tokenizer
from paradraft.core.records import FinishReason
from paradraft.server.answers.completion import LOWEST
from paradraft.server.answers.gathered import Gathered
from paradraft.server.answers.spelling import spelled
from paradraft.server.answers.usage import Json
from paradraft.server.tools.parts import Call, Part
from paradraft.server.tools.reader import CallReader
from paradraft.server.tools.use import ToolUse

_LETTERS = string.ascii_letters + string.digits


class ChatFormat:
    """Writes the assistant's messages. With tools, calls are read out of the text; streamed, each comes whole."""

    name, chunk_name, prefix = "chat.completion", "chat.completion.chunk", "chatcmpl"

    def __init__(self, tokenizer: Tokenizer, use: ToolUse | None, *, tells_logprobs: bool) -> None:
        self._tokenizer = tokenizer
        self._use = use
        self._tells_logprobs = tells_logprobs
        self._streams: dict[int, _Speech] = {}

    def choice(self, number: int, gathered: Gathered) -> Json:
        """Return a finished choice."""
        speech = _Speech(self._tokenizer, self._use)
        parts = speech.hear(gathered.token_ids, gathered.pieces) + speech.end()
        text = "".join(part for part in parts if isinstance(part, str))
        calls = [part for part in parts if not isinstance(part, str)]
        message: Json = {"role": "assistant", "content": text or None if calls else text, "refusal": None}
        if calls:
            message["tool_calls"] = [speech.told(call) for call in calls]
        return {
            "index": number,
            "message": message,
            "logprobs": self._logprobs(gathered.token_ids, gathered.logprobs) if self._tells_logprobs else None,
            "finish_reason": speech.reason(gathered.finish_reason),
            "stop_reason": gathered.stop_reason,
        }

    def opening(self, number: int) -> Json | None:
        """Return the delta that tells whose message it is."""
        delta = {"role": "assistant", "content": ""}
        return {"index": number, "delta": delta, "logprobs": None, "finish_reason": None}

    def delta(self, number: int, event: TokenEvent) -> Json:
        """Return a piece of a streamed choice."""
        speech = self._streams.setdefault(number, _Speech(self._tokenizer, self._use))
        parts = speech.hear(event.token_ids, event.pieces)
        if event.finish_reason is not None:
            parts += speech.end()
        delta: Json = {}
        if text := "".join(part for part in parts if isinstance(part, str)):
            delta["content"] = text
        if calls := [part for part in parts if not isinstance(part, str)]:
            delta["tool_calls"] = [{"index": speech.num_told, **speech.told(call)} for call in calls]
        return {
            "index": number,
            "delta": delta,
            "logprobs": self._logprobs(event.token_ids, event.logprobs) if self._tells_logprobs else None,
            "finish_reason": speech.reason(event.finish_reason),
            "stop_reason": event.stop_reason,
        }

    def _logprobs(self, tokens: Sequence[int], logprobs: Sequence[TokenLogprobs]) -> Json:
        return {
            "content": [
                {**self._shown(each.chosen), "top_logprobs": [self._shown(other) for other in each.top]}
                for _, each in zip(tokens, logprobs, strict=False)
            ],
            "refusal": None,
        }

    def _shown(self, each: Logprob) -> Json:
        text, raw = spelled(self._tokenizer, each.token)
        return {"token": text, "logprob": max(LOWEST, each.logprob), "bytes": raw}


class _Speech:
    """One choice's text on its way, and the calls told of it so far."""

    def __init__(self, tokenizer: Tokenizer, use: ToolUse | None) -> None:
        self._tokenizer = tokenizer
        self._use = use
        self._reader = None if use is None else CallReader(use.form, use.names, is_inside=use.must_call)
        self.num_told = 0
        self._has_called = False

    def hear(self, tokens: Sequence[int], pieces: Sequence[str]) -> list[Part]:
        """Take the next tokens, with the text each released, and return what has become certain."""
        if self._reader is None:
            return ["".join(pieces)]
        marks = [self._mark(token) for token in tokens]
        rest = pieces[len(marks) :]
        text = "".join(piece + mark for piece, mark in zip(pieces, marks, strict=False)) + "".join(rest)
        return self._limited(self._reader.feed(text))

    def end(self) -> list[Part]:
        """Return what was held back."""
        return [] if self._reader is None else self._limited(self._reader.end())

    def told(self, call: Call) -> Json:
        """Return a call under an id of its own."""
        self.num_told += 1
        length = 24 if self._use is None else self._use.form.call_id_len
        name = "".join(secrets.choice(_LETTERS) for _ in range(length))
        return {
            "id": name if length < 24 else f"call_{name}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }

    def reason(self, reason: FinishReason | None) -> str | None:
        """Return why the choice ended, None if it goes on."""
        if reason is FinishReason.STOP and self.num_told:
            return "tool_calls"
        return None if reason is None else str(reason)

    def _mark(self, token: int) -> str:
        """Return a control token's spelling where it is part of how calls are written; text leaves such tokens out."""
        if self._use is None or not self._tokenizer.is_special(token):
            return ""
        text = self._tokenizer.token_bytes(token).decode("utf-8", "replace")
        return text if text in self._use.form.markers else ""

    def _limited(self, parts: list[Part]) -> list[Part]:
        """Leave out calls behind the first one where only one was wanted."""
        if self._use is None or self._use.several:
            return parts
        kept: list[Part] = []
        for part in parts:
            if isinstance(part, Call):
                if self._has_called:
                    continue
                self._has_called = True
            kept.append(part)
        return kept
