"""`paradraft train`: from a target to a drafter for it."""

from __future__ import annotations

import typer

from paradraft.cli import train_capture, train_evaluate, train_fit, train_small, train_table
from paradraft.cli.examples import shown

train = typer.Typer(
    help="Capture a target and make drafters for it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=shown(*train_capture.EXAMPLES, *train_table.EXAMPLES, *train_fit.EXAMPLES),
)
train.command(epilog=shown(*train_capture.EXAMPLES))(train_capture.capture)
train.command(epilog=shown(*train_capture.TAPS_EXAMPLES))(train_capture.taps)
train.command(epilog=shown(*train_table.EXAMPLES))(train_table.table)
train.command(epilog=shown(*train_fit.EXAMPLES))(train_fit.fit)
train.command(epilog=shown(*train_evaluate.EXAMPLES))(train_evaluate.evaluate)
train.command(epilog=shown(*train_small.ADAPT_EXAMPLES))(train_small.adapt)
train.command(epilog=shown(*train_small.DISTILL_EXAMPLES))(train_small.distill)
train.command(epilog=shown(*train_fit.EXPORT_EXAMPLES))(train_fit.export)
