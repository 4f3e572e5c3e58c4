"""Examples as the help of a command shows them."""

from __future__ import annotations


def shown(*commands: str) -> str:
    """Return an epilog; the first character keeps its lines from being joined."""
    lines = "\n".join(f"  {command}" for command in commands)
    return f"\b\nExamples:\n{lines}"
