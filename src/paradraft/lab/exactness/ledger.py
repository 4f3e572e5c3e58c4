"""The file of a matrix: what is done, what is still wanted, and what it was done with. Whole after every case.

A run of hours may be killed at any moment and goes on from its file; several runs share the cases with a file each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from paradraft.core.errors import ConfigError
from paradraft.lab.exactness.cases import Case
from paradraft.lab.exactness.check import CaseResult, Check, Reference
from paradraft.lab.files import write_whole
from paradraft.lab.near_ties import Difference
from paradraft.lab.provenance import Provenance, source_digest

_FORMAT = 1
Setup = Mapping[str, Any]  # values of JSON by name


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """What a file holds."""

    setup: Setup  # what has to be the same for results to belong together
    part: str  # which share of the cases, as 0/2
    runs: tuple[Mapping[str, Any], ...]  # provenance of each run that added to it
    wanted: tuple[Case, ...]  # of all parts
    references: tuple[Reference, ...] = ()
    results: tuple[CaseResult, ...] = ()

    def missing(self) -> list[Case]:
        """Return the cases without a result."""
        done = {result.case for result in self.results}
        return [case for case in self.wanted if case not in done]


@dataclass(kw_only=True)
class Ledger:
    """Owns the contents while a run adds to them; without a path they are kept in memory alone."""

    path: Path | None
    contents: Contents
    results: dict[Case, CaseResult] = field(init=False)
    references: dict[float, Reference] = field(init=False)

    def __post_init__(self) -> None:
        """Index what is there, and write it, so that a place that cannot be written is known before hours of work."""
        self.results = {result.case: result for result in self.contents.results}
        self.references = {reference.temperature: reference for reference in self.contents.references}
        self._write()

    @classmethod
    def open(cls, path: Path | None, begun: Contents) -> Self:
        """Go on with what the file holds, or begin it; raise ConfigError if it belongs to another set-up or part."""
        if path is None or not path.exists():
            return cls(path=path, contents=begun)
        there = read_contents(path)
        _check_same(path, {**there.setup, "part": there.part}, {**begun.setup, "part": begun.part})
        wanted = tuple(dict.fromkeys((*there.wanted, *begun.wanted)))
        return cls(path=path, contents=replace(there, runs=(*there.runs, *begun.runs), wanted=wanted))

    def add_reference(self, reference: Reference) -> None:
        """Keep what plain decoding says."""
        self.references[reference.temperature] = reference
        self._write()

    def add(self, result: CaseResult) -> None:
        """Keep the result of a case."""
        self.results[result.case] = result
        self._write()

    def _write(self) -> None:
        self.contents = replace(
            self.contents, references=tuple(self.references.values()), results=tuple(self.results.values())
        )
        if self.path is not None:
            write_whole(self.path, json.dumps({"format": _FORMAT, **asdict(self.contents)}, indent=1) + "\n")


def setup_of(provenance: Provenance, check: Check) -> Setup:
    """Return everything that decides about the tokens, by name, as JSON gives it back."""
    machine = provenance.machine
    setup = {
        "source": source_digest(),
        **provenance.versions,
        **{name: machine[name] for name in ("cpu", "architecture", "flags")},
        **provenance.settings,
        "weights": provenance.model["sha256"],
        "runner": provenance.model["runner"],
        "dtype": provenance.dtype,
        "prompts": check.prompt_set.sha256,
        "max_tokens": check.max_tokens,
        "seed": check.seed,
    }
    return _plain(setup)


def begin(provenance: Provenance, check: Check, wanted: Sequence[Case], part: str) -> Contents:
    """Return the contents of a run that starts now."""
    setup = setup_of(provenance, check)
    return Contents(setup=setup, part=part, runs=(_plain(asdict(provenance)),), wanted=tuple(wanted))


def read_contents(path: Path) -> Contents:
    """Return what a file holds; raise ConfigError if it cannot be read or is something else."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT:
            raise ValueError(f"format {data['format']!r}")
        return Contents(
            setup=dict(data["setup"]),
            part=data["part"],
            runs=tuple(data["runs"]),
            wanted=tuple(Case(**entry) for entry in data["wanted"]),
            references=tuple(_reference(entry) for entry in data["references"]),
            results=tuple(_result(entry) for entry in data["results"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} holds no results of `paradraft exactness` ({error}).", remedy="Name another file, or remove it."
        ) from error


def merge(paths: Sequence[Path]) -> Contents:
    """Return what several files hold together; raise ConfigError if they do not belong together."""
    first, *others = [read_contents(path) for path in paths]
    for path, other in zip(paths[1:], others, strict=True):
        _check_same(path, other.setup, first.setup, than=f"{paths[0]}")
        first = _joined(path, first, other)
    return first


def _joined(path: Path, ours: Contents, theirs: Contents) -> Contents:
    answers = {reference.temperature: reference.answers for reference in ours.references}
    for reference in theirs.references:
        if answers.get(reference.temperature, reference.answers) != reference.answers:
            raise ConfigError(
                f"{path}: plain decoding at temperature {reference.temperature:g} gave other tokens than in the files "
                f"before it.",
                remedy="Plain decoding is not repeatable here: see `paradraft doctor`, and run both again.",
            )
    return replace(
        ours,
        runs=(*ours.runs, *theirs.runs),
        wanted=tuple(dict.fromkeys((*ours.wanted, *theirs.wanted))),
        references=(*ours.references, *theirs.references),
        results=tuple({result.case: result for result in (*ours.results, *theirs.results)}.values()),
    )


def _check_same(path: Path, there: Setup, here: Setup, *, than: str = "this run") -> None:
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    if names:
        facts = ", ".join(f"{name} {there.get(name)!r} and not {here.get(name)!r}" for name in names[:3])
        raise ConfigError(
            f"{path} belongs to another set-up than {than}: {facts}.",
            remedy="Repeat it with what the file was made with, name another file, or remove it.",
        )


def _reference(entry: Mapping[str, Any]) -> Reference:
    return Reference(**{**entry, "answers": tuple(map(tuple, entry["answers"]))})


def _result(entry: Mapping[str, Any]) -> CaseResult:
    found = {name: tuple(Difference(**each) for each in entry[name]) for name in ("near_ties", "mismatches")}
    return CaseResult(**{**entry, "case": Case(**entry["case"]), **found})


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON gives them back, tuples as lists."""
    return dict(json.loads(json.dumps(values)))
