"""Exact speculative decoding: text generation made faster without changing what the model says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paradraft.core.version import __version__

if TYPE_CHECKING:
    from paradraft.app.llm import LLM
    from paradraft.core.grammar import Grammar
    from paradraft.core.sampling import SamplingParams

__all__ = ["LLM", "Grammar", "SamplingParams", "__version__"]


def __getattr__(name: str) -> object:
    """Import the public names on first use, so that `import paradraft` stays quick and free of torch."""
    if name == "LLM":
        from paradraft.app.llm import LLM

        return LLM
    if name == "Grammar":
        from paradraft.core.grammar import Grammar

        return Grammar
    if name == "SamplingParams":
        from paradraft.core.sampling import SamplingParams

        return SamplingParams
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
