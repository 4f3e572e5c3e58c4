"""`paradraft train adapt` and `distill`: a drafter for a domain, and a plain small draft model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paradraft.cli import options
from paradraft.cli.train_fit import TARGET, plan_from, run_fit
from paradraft.train.rhythm import Rhythm

ADAPT_EXAMPLES = (
    "paradraft train adapt ./my-drafter ./domain-capture ./adapt-run --steps 400",
    "paradraft train export ./adapt-run ./my-domain-drafter",
)
DISTILL_EXAMPLES = ("paradraft train distill ./capture ./small-run ./small --layers 2 --steps 4000",)
_Shards = Annotated[Path, typer.Argument(help="A folder that `train capture` wrote, with taps.")]
_Run = Annotated[Path, typer.Argument(help="The fit's folder; a fit that was begun there goes on.")]
_Steps = Annotated[int, typer.Option(help="Steps in all, with those already done.", min=1)]
_Sequences = Annotated[int, typer.Option(help="Texts per step.", min=1)]
_Lr = Annotated[float, typer.Option(help="Highest learning rate.")]
_Threads = Annotated[int | None, typer.Option(help="Processor threads.", min=1)]


def adapt(
    drafter: Annotated[Path, typer.Argument(help="The drafter folder to adapt.")],
    shards: _Shards,
    folder: _Run,
    model: options.Model = None,
    rank: Annotated[int, typer.Option(help="Rank of the change of each matrix.", min=1)] = 8,
    alpha: Annotated[float, typer.Option(help="The change is multiplied by alpha / rank.")] = 16.0,
    steps: _Steps = 400,
    sequences: _Sequences = 8,
    lr: _Lr = 1e-3,
    threads: _Threads = None,
    settings: options.Settings = None,
) -> None:
    """Fit low-rank changes (LoRA) of a drafter to a domain's captured texts; `export` merges them.

    Capture the domain first: its prompts, answered by the target. May be killed and run again.
    """
    from paradraft.models.threads import use_threads
    from paradraft.train.adapt import AdapterPlan, open_adaptation

    use_threads(threads)
    plan = plan_from(settings, {"steps": steps, "sequences": sequences, "lr": lr})
    adapter = AdapterPlan(rank=rank, alpha=alpha)
    run_fit(
        open_adaptation(drafter, shards, folder, target=model or TARGET, adapter=adapter, plan=plan), folder, Rhythm()
    )


def distill(
    shards: _Shards,
    folder: _Run,
    out: Annotated[Path, typer.Argument(help="The model folder to make.")],
    model: options.Model = None,
    layers: Annotated[int, typer.Option(help="Layers of the small model.", min=1)] = 2,
    hidden: Annotated[int, typer.Option(help="Its hidden size.", min=2)] = 192,
    inner: Annotated[int, typer.Option(help="Its feed-forward size.", min=1)] = 512,
    heads: Annotated[int, typer.Option(help="Its query heads.", min=1)] = 3,
    key_heads: Annotated[int, typer.Option(help="Its key heads.", min=1)] = 1,
    steps: _Steps = 4000,
    sequences: _Sequences = 8,
    lr: _Lr = 1e-3,
    dtype: options.Dtype = "bf16",
    threads: _Threads = None,
    settings: options.Settings = None,
) -> None:
    """Distil a target's captured laws into a plain small model, to be used as `--drafter OUT`.

    It learns the whole law at each place (--set kl=1) beside the tokens (--set ce=0.1). May be killed and run again.
    """
    from paradraft.models.threads import use_threads
    from paradraft.train.distill import export_small, open_distillation
    from paradraft.train.small_model import SmallPlan

    use_threads(threads)
    small = SmallPlan(
        num_layers=layers, hidden_size=hidden, intermediate_size=inner, num_heads=heads, num_key_heads=key_heads
    )
    usual = {"kl": 1.0, "ce": 0.1, "weighting": "equal"}
    plan = plan_from(settings, {"steps": steps, "sequences": sequences, "lr": lr}, usual)
    run_fit(open_distillation(shards, folder, target=model or TARGET, small=small, plan=plan), folder, Rhythm())
    print(export_small(folder, out, target=model or TARGET, dtype=dtype or "bf16"))
