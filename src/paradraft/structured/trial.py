"""Tries a grammar out in a process that can be ended, since no limit of the library bounds every compilation.

Twenty patterns under one allOf, 600 bytes in all, keep it busy for a quarter of a minute in a call that cannot be
interrupted. The process has a vocabulary of bytes, so it needs nothing of the model: what blows up does so in the
grammar itself. Where the system bounds no process (Windows), only the time on the clock ends it.
"""

from __future__ import annotations

import subprocess
import sys
from threading import BoundedSemaphore

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

# Processor seconds, so that a busy machine refuses nothing that an idle one takes.
MAX_CPU_SECONDS = 2
_MAX_SECONDS = 60.0
_MAX_BYTES = 2**31
_AT_ONCE = BoundedSemaphore(2)

# Work and memory of the library: what a matcher may need from step to step, too.
LIMITS = LLParserLimits(
    initial_lexer_fuel=200_000,
    max_grammar_size=50_000,
    step_lexer_fuel=200_000,
    step_max_items=50_000,
    max_items_in_row=2_000,
    max_lexer_states=20_000,
    verbose_errors=False,
)


def is_affordable(lark: str, *, seconds: int = MAX_CPU_SECONDS) -> bool:
    """Whether the grammar compiles, or fails to, within so many processor seconds. Takes a tenth of a second."""
    with _AT_ONCE:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "paradraft.structured.trial", str(seconds)],
                input=lark.encode("utf-8"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_MAX_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0


def open_matcher(vocabulary: LLTokenizer, lark: str) -> LLMatcher:
    """Return the library's matcher of a grammar within the limits; it tells errors when it is asked for them."""
    return LLMatcher(vocabulary, lark, log_level=0, limits=LIMITS)


class _Bytes:
    """A vocabulary of the 256 bytes and an end."""

    eos_token_id = 256
    bos_token_id = None
    special_token_ids = (256,)
    tokens = (*(bytes([byte]) for byte in range(256)), b"<end>")

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


def _bound_this_process(seconds: int) -> None:
    """Have the system end this process after so many processor seconds or too much memory, where it can."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_BYTES, _MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Compile the grammar on standard input and find its first tokens; the system ends it where that takes long."""
    _bound_this_process(int(sys.argv[1]))
    matcher = open_matcher(LLTokenizer(TokenizerWrapper(_Bytes())), sys.stdin.buffer.read().decode("utf-8"))
    matcher.compute_bitmask()


if __name__ == "__main__":
    main()
