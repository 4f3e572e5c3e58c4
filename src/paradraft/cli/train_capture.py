"""`paradraft train capture`: what a target says and holds, as shards to train on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paradraft.app.config import Config
from paradraft.cli import options
from paradraft.cli.capture_report import announce, counting_units, show_capture
from paradraft.cli.settings import build_config, parse_share
from paradraft.core.errors import ConfigError

if TYPE_CHECKING:
    from paradraft.train.capture import CaptureReport
    from paradraft.train.plan import CaptureOptions
    from paradraft.train.prompts import Task
    from paradraft.train.units import Share

EXAMPLES = (
    "paradraft train capture ./capture --own-turns 4000 --prompts gsm8k=gsm8k_train.jsonl",
    "paradraft train capture ./capture --own-turns 4000 --part 0/2 --set threads=1",
)
TAPS_EXAMPLES = ("paradraft train taps ./capture --taps-gb 40",)
_Folder = Annotated[Path, typer.Argument(help="The folder of shards; a capture that was begun there goes on.")]
_TapsGb = Annotated[float, typer.Option(help="Most gigabytes of taps to keep; tokens are always kept.", min=0.0)]
_Openings = Annotated[float, typer.Option(help="Share of own turns that begin with a drawn request.", min=0.0, max=1.0)]
_HalfWritten = Annotated[float, typer.Option(help="Share of these that begin in its middle.", min=0.0, max=1.0)]
_FollowUps = Annotated[float, typer.Option(help="Share of own turns with a second turn.", min=0.0, max=1.0)]
_Rows = Annotated[int, typer.Option(help="Conversations that are answered together.", min=1)]


def capture(
    folder: _Folder,
    model: options.Model = None,
    prompts: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="Prompts to ask; may be repeated.")
    ] = None,
    own_turns: Annotated[int, typer.Option(help="User turns that the target is to write itself.", min=0)] = 0,
    openings: _Openings = 0.85,
    half_written: _HalfWritten = 0.4,
    follow_ups: _FollowUps = 0.25,
    limit: Annotated[int | None, typer.Option(help="Use so many prompts of each file.", min=1)] = None,
    held_out: Annotated[
        str, typer.Option(help="Prompt sets and files that training must not see, or none.")
    ] = "mt-bench,gsm8k-100",
    temperature: options.Temperature = 0.0,
    max_prompt: Annotated[int, typer.Option(help="Longest prompt in tokens; longer ones are left out.")] = 224,
    max_tokens: options.MaxTokens = 288,
    taps: Annotated[str, typer.Option(help="Layers whose outputs are kept, from 0; -1 is the embedding.")] = "auto",
    taps_gb: _TapsGb = 20.0,
    rows: _Rows = 32,
    unit: Annotated[int, typer.Option(help="Conversations per shard, all of which a killed run loses.")] = 128,
    part: Annotated[str, typer.Option(help="Share the work: 0/2 and 1/2 run side by side.")] = "0/1",
    seed: options.Seed = 0,
    dtype: options.Dtype = None,
    as_json: options.AsJson = False,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
) -> None:
    """Ask a target prompts as it is served, and keep its answers and hidden states. May be killed and run again.

    The same command gives the same folder however often it was interrupted. Prompts that share 13 words in a row with
    a held-out text are left out.
    """
    from paradraft.app.capture import capture_config
    from paradraft.train.plan import CaptureOptions

    wanted = CaptureOptions(
        own_turns=own_turns,
        openings=openings,
        half_written=half_written,
        follow_ups=follow_ups,
        max_prompt_len=max_prompt,
        max_tokens=max_tokens,
        temperature=temperature,
        seed=seed or 0,
        unit=unit,
    )
    share, tasks, held_out_texts = parse_share(part), _tasks(prompts or (), limit), _held_out(held_out)
    base = build_config(config, settings, model=model, dtype=dtype)
    chosen = capture_config(base, rows=rows, longest=max_prompt + max_tokens)
    prepared = _Prepared(chosen, _layers(chosen, taps), tuple(tasks), tuple(held_out_texts), int(taps_gb * 1e9), share)
    report = _capture(folder, prepared, wanted)
    show_capture(report, folder, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What a command line asks for, checked as far as can be without loading the target."""

    config: Config
    layers: tuple[int, ...]
    tasks: tuple[Task, ...]
    held_out: tuple[str, ...]
    most_taps: int
    share: Share


def _capture(folder: Path, prepared: _Prepared, wanted: CaptureOptions) -> CaptureReport:
    from paradraft.cli.opening import open_llm
    from paradraft.nets.folder.facts import facts_of
    from paradraft.train.capture import Capture
    from paradraft.train.plan import CapturePlan, room_needed
    from paradraft.train.recorder import Recorder
    from paradraft.train.shards import ShardWriter

    recorder = Recorder(prepared.layers) if prepared.most_taps else None
    with open_llm(prepared.config, recorder) as llm:
        plan = CapturePlan(
            target=asdict(facts_of(llm.model)),
            tap_layers=prepared.layers,
            hidden_size=llm.limits.hidden_size,
            vocab_size=llm.limits.vocab_size,
            tasks=prepared.tasks,
            held_out=prepared.held_out,
            options=wanted,
        )
        announce(plan, room_needed(plan, folder, prepared.most_taps), llm)
        writer = ShardWriter(folder, plan.manifest(), max_taps_bytes=prepared.most_taps)
        run = Capture(plan, llm, recorder, writer, prepared.share)
        with counting_units("Writing own turns") as progress:
            run.write_turns(progress)
        with counting_units("Capturing", run.projected_bytes) as progress:
            return run.run(progress)


def taps(
    folder: _Folder,
    model: options.Model = None,
    taps_gb: _TapsGb = 20.0,
    rows: _Rows = 8,
    dtype: options.Dtype = None,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
) -> None:
    """Make taps again for shards that have tokens only, by feeding their texts to the target."""
    from paradraft.app.capture import capture_config
    from paradraft.cli.opening import open_llm
    from paradraft.nets.folder.facts import facts_of
    from paradraft.train.rebuild import rebuild_taps
    from paradraft.train.recorder import Recorder
    from paradraft.train.shards import ShardReader, ShardWriter

    reader = ShardReader(folder)
    longest = int(reader.lengths.max(initial=2))
    chosen = capture_config(build_config(config, settings, model=model, dtype=dtype), rows=rows, longest=longest)
    recorder = Recorder(reader.manifest.tap_layers)
    writer = ShardWriter(folder, reader.manifest, max_taps_bytes=int(taps_gb * 1e9))
    with open_llm(chosen, recorder) as llm, counting_units("Making taps") as progress:
        made = rebuild_taps(writer, asdict(facts_of(llm.model)), llm, recorder, progress)
    print(f"{made} shards got their taps back.")


def _layers(config: Config, text: str) -> tuple[int, ...]:
    from paradraft.app.capture import tap_layers

    if text == "auto":
        return tap_layers(config, None)
    try:
        return tap_layers(config, [int(part) for part in text.split(",")])
    except ValueError as error:
        raise ConfigError(
            f"--taps {text!r} is not a list of layers.", remedy="Write it like 1,8,14,20,27,29, or auto."
        ) from error


def _tasks(prompts: Sequence[str], limit: int | None) -> list[Task]:
    from paradraft.cli.opening import read_tasks
    from paradraft.train.prompts import tasks_of

    tasks: list[Task] = []
    for given in prompts:
        name, equals, file = given.partition("=")
        source = name if equals else Path(given).name.partition(".")[0]
        tasks += tasks_of(read_tasks(file if equals else given)[:limit], source)
    return tasks


def _held_out(names: str) -> list[str]:
    from paradraft.cli.opening import read_tasks
    from paradraft.train.prompts import held_out_texts

    chosen = [] if names == "none" else [name.strip() for name in names.split(",") if name.strip()]
    return [text for name in chosen for text in held_out_texts(read_tasks(name))]
