"""`paradraft train fit` and `export`: a drafter from captured texts, and its folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paradraft.cli import options
from paradraft.cli.settings import parse_settings
from paradraft.core.errors import ConfigError
from paradraft.train.rhythm import Rhythm

if TYPE_CHECKING:
    from paradraft.train.beginning import NetPlan
    from paradraft.train.fit import Fit
    from paradraft.train.fit_plan import FitPlan
    from paradraft.train.progress import Report

EXAMPLES = (
    "paradraft train fit ./capture ./run --method dspark --steps 4000",
    "paradraft train fit ./capture ./run --steps 4000 --set depths=mixed --set weighting=equal",
    "paradraft train fit ./capture ./run --steps 4000 --lr 3e-4 --begin-from ./my-drafter",
)
EXPORT_EXAMPLES = ("paradraft train export ./run ./my-drafter --shards ./capture",)
TARGET = "smollm2-135m"
_Run = Annotated[Path, typer.Argument(help="The fit's folder; a fit that was begun there goes on.")]
_Licences = Annotated[
    list[str] | None, typer.Option(metavar="SOURCE=LICENCE", help="The licence of a source of texts, for the card.")
]


def fit(
    shards: Annotated[Path, typer.Argument(help="A folder that `train capture` wrote, with taps.")],
    folder: _Run,
    model: options.Model = None,
    method: Annotated[str, typer.Option(help="dspark, dflash, peagle, eagle3 or medusa.")] = "dspark",
    steps: Annotated[int, typer.Option(help="Steps in all, with those already done.", min=1)] = 4000,
    sequences: Annotated[int, typer.Option(help="Texts per step.", min=1)] = 8,
    anchors: Annotated[int, typer.Option(help="Places per text that drafts start from.", min=1)] = 64,
    lr: Annotated[float, typer.Option(help="Highest learning rate.")] = 1e-3,
    block: Annotated[int, typer.Option(help="Tokens that one round drafts.", min=1)] = 5,
    threads: Annotated[int | None, typer.Option(help="Processor threads.", min=1)] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    grow: Annotated[
        bool, typer.Option("--grow", help="Go on although there are more texts, or more steps, than at the start.")
    ] = False,
    begin_from: Annotated[
        Path | None, typer.Option(help="Begin with the weights of a drafter folder, or of another fit's folder.")
    ] = None,
    report: Annotated[int, typer.Option(help="Steps between reports.", min=1)] = 20,
    measure: Annotated[int, typer.Option(help="Steps between measurements on held-out texts.", min=1)] = 500,
    save: Annotated[int, typer.Option(help="Steps between checkpoints, all of which a killed run loses.")] = 200,
    settings: options.Settings = None,
) -> None:
    """Fit a drafter to captured texts. May be killed and run again: it goes on bit by bit as it would have.

    --set takes every value of the network, the plan and the objective by name, such as draft_vocab_size=16384.
    """
    from paradraft.models.device import choose_device
    from paradraft.models.threads import use_threads
    from paradraft.train.making import FitSources, open_fit

    named = {"steps": steps, "sequences": sequences, "anchors": anchors, "lr": lr}
    net_plan, plan = _plans(settings, {"method": method, "block_size": block}, named)
    use_threads(threads)
    sources = FitSources(target=model or TARGET, shards=shards, folder=folder, begin_from=begin_from)
    work = open_fit(sources, net_plan, plan, device=choose_device(device), may_grow=grow)
    run_fit(work, folder, Rhythm(report=report, measure=measure, save=save))


def export(
    folder: _Run,
    out: Annotated[Path, typer.Argument(help="The drafter folder to make.")],
    model: options.Model = None,
    shards: Annotated[Path | None, typer.Option(help="What it was fitted to, for the card.")] = None,
    layout: Annotated[str, typer.Option(help="native, or another that `drafters export` knows.")] = "native",
    dtype: options.Dtype = "fp32",
    whole: options.Whole = False,
    licence: Annotated[str, typer.Option(help="The licence of the drafter, for the card.")] = "Apache-2.0",
    source_licence: _Licences = None,
    acceptance: Annotated[
        Path | None, typer.Option(help="A JSON file of figures that `train evaluate` wrote, for the card.")
    ] = None,
) -> None:
    """Write what a fit has reached as a drafter folder with its card.

    Rows of the target's tables are left to the target, whose weights the card names.
    """
    from paradraft.train.making import CardFacts, export_fit

    figures = {} if acceptance is None else _figures(acceptance)
    licences = {name: str(value) for name, value in parse_settings(source_licence).items()}
    facts = CardFacts(shards=shards, licences=licences, acceptance=figures, licence=licence)
    made = export_fit(
        folder, out, target=model or TARGET, facts=facts, layout=layout, dtype=dtype or "fp32", is_whole=whole
    )
    print(made)


def run_fit(work: Fit[Any], folder: Path, rhythm: Rhythm) -> None:
    """Take the remaining steps of a fit, telling how it goes, and draw its curves."""
    from paradraft.train.pictures import can_draw, draw_history

    weights = sum(weight.numel() for weight in work.task.net.parameters() if weight.requires_grad)
    print(f"{weights / 1e6:.2f}M weights to fit, {work.step} steps done", file=sys.stderr)
    work.run(rhythm, _show)
    for picture in draw_history(folder):
        print(picture)
    if not can_draw():
        print("No pictures: matplotlib is not installed (`pip install 'paradraft[report]'`).", file=sys.stderr)


def plan_from(
    settings: Sequence[str] | None, named: Mapping[str, object], usual: Mapping[str, object] | None = None
) -> FitPlan:
    """Return a plan from --set, options by name and the usual values of its objective; raise ConfigError."""
    from paradraft.train.fit_plan import FitPlan
    from paradraft.train.objectives import Objective

    parts = _split(settings, (FitPlan, Objective))
    objective = Objective(**{**(usual or {}), **parts[Objective]})
    return FitPlan(**{**named, **parts[FitPlan], "objective": objective})


def _show(report: Report) -> None:
    length = "" if report.length is None else f"  held-out length {report.length:.3f}"
    print(
        f"{report.step:>6}/{report.steps}  loss {report.loss:.3f}  right {report.right:.3f}  "
        f"lr {report.rate:.1e}  {report.slots_per_second:,.0f} slots/s{length}",
        file=sys.stderr,
        flush=True,
    )


def _plans(
    settings: Sequence[str] | None, net: Mapping[str, object], plan: Mapping[str, object]
) -> tuple[NetPlan, FitPlan]:
    from paradraft.train.beginning import NetPlan
    from paradraft.train.fit_plan import FitPlan
    from paradraft.train.objectives import Objective

    parts = _split(settings, (NetPlan, FitPlan, Objective))
    objective = Objective(**parts[Objective])
    return NetPlan(**{**net, **parts[NetPlan]}), FitPlan(**{**plan, **parts[FitPlan], "objective": objective})


def _split(settings: Sequence[str] | None, kinds: Sequence[type]) -> dict[type, dict[str, Any]]:
    """Sort settings by the record that has a field of their name; raise ConfigError for one that none has."""
    given = dict(parse_settings(settings))
    parts = {
        kind: {field.name: given.pop(field.name) for field in fields(kind) if field.name in given} for kind in kinds
    }
    if given:
        known = sorted({field.name for kind in kinds for field in fields(kind)})
        raise ConfigError(f"--set {next(iter(given))} is not known.", remedy=f"Known keys: {', '.join(known)}.")
    return parts


def _figures(path: Path) -> dict[str, float]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): float(value) for name, value in record["figures"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(
            f"{path} holds no figures ({error}).", remedy="Give the file that `train evaluate --json` wrote."
        ) from error
