"""User turns that the target writes itself, in files that can be made one by one."""

from __future__ import annotations

import json
from pathlib import Path

from paradraft.train.files import write_text
from paradraft.train.plan import CaptureOptions
from paradraft.train.ports import Progress, Speaker
from paradraft.train.prompts import OWN, Task, write_turns
from paradraft.train.units import Share


class OwnTurns:
    """The turns that belong to a capture, in a folder of files of `turns_unit` attempts each."""

    def __init__(self, folder: Path, options: CaptureOptions) -> None:
        self._folder, self._options = folder, options

    def complete(self, speaker: Speaker, share: Share, progress: Progress) -> list[Task]:
        """Make the files that are missing and return all turns; raise ModelError if the disk is full."""
        options, count = self._options, self._options.num_turn_files
        for number in share.missing(count, lambda at: self._read(at) is not None, progress):
            first = number * options.turns_unit
            attempts = min(options.turns_unit, options.own_turns - first)
            turns = write_turns(speaker, count=attempts, seed=options.seed + first)
            write_text(self._file(number), json.dumps(turns, indent=0) + "\n")
        turns = [turn for number in range(count) for turn in self._read(number) or ()]
        return [Task(messages=(("user", turn),), source=OWN) for turn in turns]

    def _file(self, number: int) -> Path:
        return self._folder / f"turns_{number:04d}.json"

    def _read(self, number: int) -> list[str] | None:
        """Return the turns of a file, None if it is not there or not a list of texts."""
        try:
            turns = json.loads(self._file(number).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return turns if isinstance(turns, list) and all(isinstance(turn, str) for turn in turns) else None
