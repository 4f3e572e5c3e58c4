"""The `paradraft` command. Whatever needs torch is imported inside the commands, so that help comes at once."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from typer.core import TyperGroup

from paradraft import __version__
from paradraft.cli import bench, compare, demo, doctor, exactness, generate, serve
from paradraft.cli.drafters import drafters
from paradraft.cli.examples import shown
from paradraft.cli.models import models
from paradraft.cli.train import train
from paradraft.core.errors import ParadraftError

_USER_ERROR = 2
_INTERRUPTED = 130


class _Commands(TyperGroup):
    """Ends a command cleanly where the user made a mistake or wants to stop."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except ParadraftError as error:
            print(f"paradraft: {error}", file=sys.stderr)
            raise typer.Exit(_USER_ERROR) from error
        except KeyboardInterrupt as error:
            print("\nparadraft: stopped.", file=sys.stderr)
            raise typer.Exit(_INTERRUPTED) from error


app = typer.Typer(
    name="paradraft",
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog=shown(*generate.EXAMPLES))(generate.generate)
app.command(epilog=shown(*serve.EXAMPLES))(serve.serve)
app.command(epilog=shown(*demo.EXAMPLES))(demo.demo)
app.command(epilog=shown(*bench.EXAMPLES))(bench.bench)
app.command(epilog=shown(*doctor.EXAMPLES))(doctor.doctor)
app.command(epilog=shown(*compare.EXAMPLES))(compare.compare)
app.command(epilog=shown(*exactness.EXAMPLES))(exactness.exactness)
app.add_typer(models, name="models")
app.add_typer(train, name="train")
app.add_typer(drafters, name="drafters")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback(
    epilog=shown(
        "paradraft demo",
        'paradraft generate "Write a haiku about the sea." --colour',
        "paradraft serve",
        "paradraft bench --limit 8 --html report.html",
        "paradraft doctor",
    )
)
def paradraft(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Exact speculative decoding: text generation made faster without changing what the model says."""


def main() -> None:
    """Run the command line."""
    app()
