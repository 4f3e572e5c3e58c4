"""Events taken apart into tokens, and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paradraft.core.events import TokenEvent


def single_tokens(event: TokenEvent) -> list[TokenEvent]:
    """Return an event for each token; the first one has what came before it, the last one what comes after."""
    count = len(event.token_ids)
    if count < 2:
        return [event]
    singles = [
        replace(
            event,
            token_ids=(event.token_ids[at],),
            origins=(event.origins[at],),
            pieces=event.pieces[at : at + 1] if at < count - 1 else event.pieces[at:],
            logprobs=event.logprobs[at : at + 1],
            prompt_logprobs=event.prompt_logprobs if at == 0 else None,
            num_hidden=0,
            finish_reason=None,
            stop_reason=None,
            error=None,
            stats=None,
        )
        for at in range(count)
    ]
    singles[-1] = replace(
        singles[-1],
        num_hidden=event.num_hidden,
        finish_reason=event.finish_reason,
        stop_reason=event.stop_reason,
        error=event.error,
        stats=event.stats,
    )
    return singles


def joined(events: Sequence[TokenEvent]) -> TokenEvent:
    """Return successive events of one choice as one; text that belongs to no token goes with the token before it."""
    first, last = events[0], events[-1]
    if first is last:
        return first
    return replace(
        last,
        token_ids=tuple(token for event in events for token in event.token_ids),
        origins=tuple(origin for event in events for origin in event.origins),
        pieces=_pieces(events),
        logprobs=tuple(logprobs for event in events for logprobs in event.logprobs),
        prompt_logprobs=first.prompt_logprobs,
        num_hidden=sum(event.num_hidden for event in events),
    )


def _pieces(events: Sequence[TokenEvent]) -> tuple[str, ...]:
    pieces: list[str] = []
    stray = ""  # text before the first token
    for event in events:
        for place, piece in enumerate(event.pieces):
            if place < len(event.token_ids):
                pieces.append(stray + piece)
                stray = ""
            elif pieces:
                pieces[-1] += piece
            else:
                stray += piece
    return tuple(pieces) if not stray else (*pieces, stray)
