"""What a loaded model takes of the machine's memory, said before anybody waits for an answer."""

from __future__ import annotations

from paradraft.app.llm import LLM
from paradraft.lab.machine import read_machine


def memory_summary(llm: LLM) -> str:
    """Return a line with the estimate, part by part, and the reserve that is left when the cache is full."""
    limits, needs = llm.limits, llm.engine.drafter.needs
    cache = limits.num_pages * limits.page_size * limits.bytes_per_token
    parts = {"weights": limits.weight_bytes, "drafter": needs.extra_bytes, "cache when full": cache}
    told = " + ".join(f"{name} {_mb(size)}" for name, size in parts.items() if size)
    return f"Memory: {told} = {_mb(sum(parts.values()))}; {_reserve(cache)}"


def _reserve(cache: int) -> str:
    """Return what is left: weights and drafter are loaded, and the cache is counted as if none of it were touched."""
    available = read_machine().available_bytes
    if available is None:
        return "how much is free is not known here."
    if available < cache:
        return f"only {_mb(available)} are free: A FULL CACHE DOES NOT FIT, lower kv_tokens (--set kv_tokens=N)."
    return f"{_mb(available - cache)} stay in reserve."


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
