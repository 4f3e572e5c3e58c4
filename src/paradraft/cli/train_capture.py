"""`paradraft train capture`: what a target says and holds, as shards to train on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paradraft.app.config import Config
from paradraft.cli import options
from paradraft.cli.settings import build_config, parse_share
from paradraft.core.errors import ConfigError

if TYPE_CHECKING:
    from paradraft.train.capture import CaptureReport
    from paradraft.train.plan import CaptureOptions, CapturePlan
    from paradraft.train.ports import Progress
    from paradraft.train.prompts import Task
    from paradraft.train.units import Share

EXAMPLES = (
    "paradraft train capture ./capture --own-turns 4000 --prompts gsm8k=gsm8k_train.jsonl",
    "paradraft train capture ./capture --own-turns 4000 --part 0/2 --set threads=1",
)
TAPS_EXAMPLES = ("paradraft train taps ./capture --taps-gb 40",)
_Folder = Annotated[Path, typer.Argument(help="The folder of shards; a capture that was begun there goes on.")]
_TapsGb = Annotated[float, typer.Option(help="Most gigabytes of taps to keep; tokens are always kept.", min=0.0)]
_Rows = Annotated[int, typer.Option(help="Conversations that are answered together.", min=1)]


def capture(
    folder: _Folder,
    model: options.Model = None,
    prompts: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="Prompts to ask; may be repeated.")
    ] = None,
    own_turns: Annotated[int, typer.Option(help="User turns that the target is to write itself.", min=0)] = 0,
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
    _show(report, folder, as_json=as_json)


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
        _announce(plan, room_needed(plan, folder, prepared.most_taps))
        writer = ShardWriter(folder, plan.manifest(), max_taps_bytes=prepared.most_taps)
        run = Capture(plan, llm, recorder, writer, prepared.share)
        with _counting("Writing own turns") as progress:
            run.write_turns(progress)
        with _counting("Capturing", run.projected_bytes) as progress:
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
    with open_llm(chosen, recorder) as llm, _counting("Making taps") as progress:
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


def _announce(plan: CapturePlan, needed: int) -> None:
    from paradraft.cli.console import err

    count = len(plan.tasks) + plan.options.own_turns
    err().print(
        f"Up to {count} conversations, at most {plan.most_tokens / 1e6:.2f} million tokens of {plan.bytes_per_token} "
        f"bytes each with taps of layers {', '.join(map(str, plan.tap_layers))}: at most {needed / 1e9:.2f} GB of disk."
    )


@contextmanager
def _counting(label: str, projected: Callable[[], int | None] | None = None) -> Iterator[Progress]:
    """Show a bar where there is a terminal, and else a line for each step, for runs of hours in the background.

    projected: bytes that the run will take in the end, told once as soon as they are known.
    """
    from paradraft.cli.console import err
    from paradraft.cli.progress import counting

    with counting(label) as bar:
        is_told = projected is None

        def report(done: int, total: int) -> None:
            nonlocal is_told
            bar(done, total)
            if not err().is_terminal:
                err().print(f"{label}: {done}/{total}")
            num_bytes = None if is_told or projected is None else projected()
            if num_bytes is not None:
                err().print(f"By what is there, tokens with taps will take {num_bytes / 1e9:.2f} GB in the end.")
                is_told = True

        yield report


def _show(report: CaptureReport, folder: Path, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(report)))
        return
    left_out = ", ".join(f"{count} {reason}" for reason, count in report.left_out.items()) or "nothing"
    size = f"{report.num_tokens} tokens, taps {report.taps_bytes / 1e9:.2f} GB"
    print(f"{folder}: {report.num_sequences} conversations, {size}")
    print(f"this run: {report.num_answered} answer tokens in {report.seconds:.0f} s; left out: {left_out}")
