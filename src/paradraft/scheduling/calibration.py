"""Makes a drafter's confidence mean what it says: sequential temperature scaling.

Position by position a temperature is chosen that brings the survival of drafts closest to how many of them stood, by
expected calibration error; the positions before it keep theirs (DSpark, arXiv 2607.05147, which calls it STS). Only
nodes that were verified count. A fitted calibration is written as SGLang's STS file is, and read from it.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from paradraft.core.arrays import BoolArray, DoubleArray, starts_of
from paradraft.core.errors import ConfigError
from paradraft.core.records import Proposal, Verdict
from paradraft.scheduling.survival import (
    Families,
    Indices,
    above,
    at_level,
    families_of,
    renumbered,
    scaled,
    survival,
    temperature_at,
)

BINS = 15
GRID: tuple[float, ...] = tuple(float(value) for value in np.geomspace(0.1, 10.0, 41))
SLACK = 0.005  # of the least squared error, within which calibration error decides
MIN_NODES = 200  # of one depth, below which its temperature is that of the depth before
MAX_DEPTH = 64
_STEPS = (1.0, 0.5, 0.7, 0.85, 1.18, 1.4, 2.0)  # factors that a temperature may change by at once while serving
_FIRST_FIT, _REFIT_EVERY = 64, 256  # steps; a fit takes some milliseconds
_WINDOW = 2048  # nodes that are remembered


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """Temperatures by depth from 1, and the calibration error before and after, over all depths."""

    temperatures: tuple[float, ...] = ()
    num_samples: int = 0  # verified nodes it was fitted on
    ece_before: float = 0.0
    ece_after: float = 0.0
    dataset: str = ""

    def save(self, path: Path) -> None:
        """Write the calibration as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")


def read_calibration(path: Path) -> Calibration:
    """Return the calibration in a JSON file; raise ConfigError if it is not one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        temperatures = tuple(float(value) for value in content["temperatures"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _refusal(path, f"cannot be read ({type(error).__name__}: {error})") from error
    if len(temperatures) > MAX_DEPTH:
        raise _refusal(path, f"has {len(temperatures)} temperatures, more than {MAX_DEPTH}")
    if bad := [value for value in temperatures if not 0.01 <= value <= 100.0]:
        raise _refusal(path, f"has a temperature of {bad[0]}, which is not between 0.01 and 100")
    return Calibration(temperatures=temperatures, dataset=str(content.get("dataset", "")))


def _refusal(path: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"The calibration {path} {reason}.", remedy='Give a JSON object with "temperatures", or leave it out.'
    )


def chain_families(logits: DoubleArray, verified: Sequence[int], accepted: Sequence[int]) -> Families:
    """Return drafted chains as nodes: raw confidence logits [n, g], drafts verified [n] and accepted [n] of each."""
    count, width = logits.shape
    position = np.arange(width)
    is_kept = position < np.asarray(verified)[:, None]
    numbers = np.full((count, width), -1)
    numbers[is_kept] = np.arange(int(is_kept.sum()))
    parents = np.concatenate([np.full((count, 1), -1), numbers[:, :-1]], axis=1)
    return Families(
        chances=(1.0 / (1.0 + np.exp(-np.clip(logits, -50.0, 50.0))))[is_kept],
        depths=np.broadcast_to(position + 1, (count, width))[is_kept],
        parents=parents[is_kept],
        families=numbers[is_kept],
        stood=(position < np.asarray(accepted)[:, None])[is_kept],
    )


def calibration_error(predicted: DoubleArray, stood: BoolArray, bins: int = BINS) -> float:
    """Return the expected calibration error: by bins of equal width, |mean predicted - share that stood|, weighted."""
    if not len(predicted):
        return 0.0
    places = np.minimum((predicted * bins).astype(np.intp), bins - 1)
    gaps = np.bincount(places, weights=predicted - stood, minlength=bins)
    return float(np.abs(gaps).sum() / len(predicted))


def fit_calibration(
    nodes: Families, *, near: Sequence[float] | None = None, min_nodes: int = MIN_NODES, dataset: str = ""
) -> Calibration:
    """Return the temperatures that calibrate these nodes; a depth with few of them takes the one before it.

    near: temperatures by depth beside which the new ones are looked for, which is faster than among all of GRID.
    """
    temperatures: list[float] = []
    found = np.zeros(len(nodes))
    for depth in range(1, min(int(nodes.depths.max(initial=0)), MAX_DEPTH) + 1):
        level = np.flatnonzero(nodes.depths == depth)
        if len(level) >= min_nodes:
            grid = GRID if near is None else _beside(temperature_at(near, depth))
            temperatures.append(_best_temperature(nodes, level, above(found, nodes.parents[level]), grid))
        else:
            temperatures.append(temperature_at(temperatures, depth))
        found[level] = above(found, nodes.parents[level]) * at_level(nodes, level, temperatures[-1])
    return Calibration(
        temperatures=tuple(temperatures),
        num_samples=len(nodes),
        ece_before=calibration_error(survival(nodes, ()), nodes.stood),
        ece_after=calibration_error(found, nodes.stood),
        dataset=dataset,
    )


def _beside(temperature: float) -> tuple[float, ...]:
    return tuple(min(max(temperature * ratio, GRID[0]), GRID[-1]) for ratio in _STEPS)


def _best_temperature(nodes: Families, level: Indices, parents: DoubleArray, grid: Sequence[float]) -> float:
    """Return the temperature of least calibration error, the one closest to 1 among equals.

    Predictions that are all alike are calibrated, too, and tell nothing. So only temperatures whose squared error is
    nearly the least come into question.
    """
    families = renumbered(nodes.families[level])
    chances, stood = nodes.chances[level], nodes.stood[level]
    trials = []
    for value in grid:
        found = parents * scaled(chances, families, value)
        squared = float(np.square(found - stood).mean())
        trials.append((squared, calibration_error(found, stood), abs(math.log(value)), value))
    bound = min(trials)[0] * (1.0 + SLACK)
    return min(trial[1:] for trial in trials if trial[0] <= bound)[-1]


@dataclass(slots=True)
class OnlineCalibration:
    """Calibrates on the last verified nodes while serving; starts from `current`."""

    current: Calibration = field(default_factory=Calibration)
    _rounds: deque[tuple[Proposal, Verdict]] = field(default_factory=deque)
    _num_nodes: int = 0
    _num_new: int = 0
    _num_fits: int = 0

    @property
    def temperatures(self) -> tuple[float, ...]:
        """Return the temperatures in use, by depth from 1."""
        return self.current.temperatures

    def add(self, proposal: Proposal, verdict: Verdict) -> None:
        """Learn what became of one step's nodes, which have confidences; now and then the temperatures follow."""
        self._rounds.append((proposal, verdict))
        self._num_nodes += len(proposal.tokens)
        self._num_new += 1
        while self._num_nodes - len(self._rounds[0][0].tokens) > _WINDOW:
            self._num_nodes -= len(self._rounds.popleft()[0].tokens)
        if self._num_new >= (_REFIT_EVERY if self._num_fits else _FIRST_FIT) and self._num_nodes >= MIN_NODES:
            self._num_new = 0
            near = self.temperatures if self._num_fits else None
            self._num_fits += 1
            self.current = fit_calibration(self.remembered(), near=near, dataset="served rounds")

    def remembered(self) -> Families:
        """Return the nodes that the calibration rests on."""
        proposals, verdicts = zip(*self._rounds, strict=True)
        joined = _joined(proposals)
        paths = np.concatenate([verdict.path_starts[1:] - verdict.path_starts[:-1] for verdict in verdicts])
        stood = np.zeros(len(joined.tokens), dtype=np.bool_)
        stood[np.concatenate([verdict.path for verdict in verdicts]) + np.repeat(joined.starts[:-1], paths)] = True
        return families_of(joined, stood)


def _joined(proposals: Sequence[Proposal]) -> Proposal:
    """Return the rows of several proposals that have confidences as those of one."""
    return Proposal(
        starts=starts_of(np.concatenate([proposal.num_nodes for proposal in proposals])),
        tokens=np.concatenate([proposal.tokens for proposal in proposals]),
        parents=np.concatenate([proposal.parents for proposal in proposals]),
        depths=np.concatenate([proposal.depths for proposal in proposals]),
        sources=np.concatenate([proposal.sources for proposal in proposals]),
        confidence=np.concatenate([proposal.confidence for proposal in proposals if proposal.confidence is not None]),
    )
