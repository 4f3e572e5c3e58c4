"""Pictures of a fit as SVG files beside its history. Needs matplotlib, which the `report` extra brings."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from paradraft.train.run_folder import History

_COLOUR, _WIDTH, _HEIGHT = "#2563a8", 6.5, 3.2
_CURVES = (("loss", "cross-entropy"), ("right", "first choices that hit"), ("length", "held-out accepted length"))


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_history(folder: Path) -> list[Path]:
    """Draw the curves of a fit's history into its folder and return the files; none without matplotlib."""
    if not can_draw():
        return []
    entries = History(folder).read()
    drawn = []
    for name, label in _CURVES:
        points = [(entry["step"], entry[name]) for entry in entries if name in entry]
        if points:
            drawn.append(_draw(folder / f"{name}.svg", points, label))
    return drawn


def _draw(path: Path, points: Sequence[tuple[float, float]], label: str) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    axes = figure.subplots()
    axes.plot([step for step, _ in points], [value for _, value in points], color=_COLOUR, linewidth=1.2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("step")
    axes.set_ylabel(label)
    figure.savefig(path, format="svg", metadata={"Date": None})
    return path
