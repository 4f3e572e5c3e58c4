"""The package as its source files say it is, without importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "paradraft"


@dataclass(frozen=True)
class Module:
    """One source file."""

    path: Path
    name: str  # dotted
    tree: ast.Module

    @property
    def place(self) -> str:
        """The path inside the package."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def room(self) -> str:
        """The package folder, "" for the top-level file."""
        parts = self.path.relative_to(PACKAGE).parts
        return parts[0] if len(parts) > 1 else ""

    def imports(self) -> Iterator[str]:
        """Yield every module imported anywhere: in functions and for type checking too."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.place}: relative import"
                assert node.module is not None
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def modules() -> tuple[Module, ...]:
    """Return all modules of the package."""
    return tuple(
        Module(path=path, name=_name(path), tree=ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
    )


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
