"""User turns that the target writes itself, in files that can be made one by one."""

from __future__ import annotations

import json
from pathlib import Path

from paradraft.train.authoring import write_conversations
from paradraft.train.files import write_text
from paradraft.train.plan import CaptureOptions
from paradraft.train.ports import Progress, Speaker
from paradraft.train.prompts import OWN, Conversation, Task, roles_of
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
            conversations = write_conversations(speaker, options, first=first, count=attempts)
            write_text(self._file(number), json.dumps(conversations, indent=0) + "\n")
        said = [conversation for number in range(count) for conversation in self._read(number) or ()]
        return [Task(messages=roles_of(conversation), source=OWN) for conversation in said]

    def _file(self, number: int) -> Path:
        return self._folder / f"turns_{number:04d}.json"

    def _read(self, number: int) -> list[Conversation] | None:
        """Return the conversations of a file, None if it is not there or holds anything else."""
        try:
            said = json.loads(self._file(number).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return [tuple(texts) for texts in said] if isinstance(said, list) and all(map(_is_conversation, said)) else None


def _is_conversation(said: object) -> bool:
    return isinstance(said, list) and len(said) % 2 == 1 and all(isinstance(text, str) for text in said)
