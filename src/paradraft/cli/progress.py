"""Progress bars, on standard error, for whatever may take more than two seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from paradraft.cli.console import err
from paradraft.lab.ports import Progress as Report

if TYPE_CHECKING:
    from paradraft.lab.exactness.run import Standing, Watch


@contextmanager
def counting(label: str) -> Iterator[Report]:
    """Show a bar of steps and yield the function that moves it, called with (done, total)."""
    with _bar(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as bar:
        yield _reporter(bar, label)


@contextmanager
def following(label: str) -> Iterator[Watch]:
    """Show a bar of cases that take minutes each; without a terminal a line for each, for runs in the background."""
    left = TextColumn("{task.fields[left]}")
    with _bar(BarColumn(), MofNCompleteColumn(), left) as bar:
        task = bar.add_task(label, total=None, left="")

        def watch(standing: Standing) -> None:
            left = "" if standing.seconds_left is None else f"{timedelta(seconds=round(standing.seconds_left))} left"
            words = f"{label}: {standing.doing}"
            bar.update(task, completed=standing.done, total=standing.total, description=words, left=left)
            if not err().is_terminal:
                err().print(f"{standing.done}/{standing.total}", standing.doing, left, markup=False)

        yield watch


@contextmanager
def downloading(label: str) -> Iterator[Report]:
    """Show a bar of bytes and yield the function that moves it, called with (done, total)."""
    with _bar(BarColumn(), DownloadColumn(), TransferSpeedColumn()) as bar:
        yield _reporter(bar, label)


@contextmanager
def waiting(label: str) -> Iterator[None]:
    """Show that something without a known end is under way."""
    with _bar() as bar:
        bar.add_task(label, total=None)
        yield


def _bar(*columns: ProgressColumn) -> Progress:
    console = err()
    spinner = SpinnerColumn(style="cyan")
    return Progress(
        spinner,
        TextColumn("{task.description}"),
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _reporter(bar: Progress, label: str) -> Report:
    task = bar.add_task(label, total=None)

    def report(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)

    return report
