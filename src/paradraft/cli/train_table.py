"""`paradraft train table`: continuations counted on what the target was captured to say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paradraft.cli.settings import parse_integers

EXAMPLES = (
    "paradraft train table ./capture answers.table --max-mb 20",
    "paradraft train table ./more-answers larger.table --begin-from answers.table",
)


def table(
    folders: Annotated[list[Path], typer.Argument(help="Folders that `paradraft train capture` wrote.")],
    out: Annotated[Path, typer.Argument(help="The file to make.")],
    orders: Annotated[str, typer.Option(help="Lengths of the contexts, as 1-4 or 1,2,3,4,6.")] = "1,2,3,4,6",
    min_counts: Annotated[str, typer.Option(help="How often a context of each length must be seen.")] = "1,1,2,2,2",
    sources: Annotated[str | None, typer.Option(help="Count only answers to prompts of these sources.")] = None,
    begin_from: Annotated[Path | None, typer.Option(help="A table whose counts are added.")] = None,
    max_mb: Annotated[float | None, typer.Option(help="Largest size of the file in megabytes.", min=0.01)] = None,
) -> None:
    """Count a table of continuations on captured answers. It drafts without a network: --drafter FILE."""
    from paradraft.cli.progress import waiting
    from paradraft.train.tables import TableOptions, build_table

    options = TableOptions(
        orders=parse_integers(orders, "--orders"),
        min_counts=_counts(min_counts),
        max_bytes=None if max_mb is None else int(max_mb * 1e6),
        begin_from=begin_from,
        sources=tuple(name.strip() for name in (sources or "").split(",") if name.strip()),
    )
    with waiting("Counting"):
        made = build_table(folders, out, options)
    contexts = ", ".join(f"{len(order.totals)} of {order.length}" for order in made.orders)
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB from {made.num_tokens} tokens; contexts by length: {contexts}")


def _counts(text: str) -> tuple[int, ...]:
    from paradraft.core.errors import ConfigError

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) >= 1 for part in parts):
        raise ConfigError(f"--min-counts {text!r} is not a list of counts.", remedy="Write it like 1,1,2,2,2.")
    return tuple(map(int, parts))
