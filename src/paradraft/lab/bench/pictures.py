"""Pictures of a benchmark as SVG text. Needs matplotlib, which the `report` extra brings."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from paradraft.core.errors import ConfigError
from paradraft.lab.bench.compare_arms import Ratio, Speedup
from paradraft.lab.bench.plan import PLAIN
from paradraft.lab.bench.records import ArmReport, BenchReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#2563a8", "#c2571a", "#2e8b57", "#7a4fa3", "#8a6d1f", "#b03060")
_GREY = "#666666"


def require_matplotlib() -> None:
    """Raise ConfigError if pictures cannot be drawn, before anything is measured for them."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("An HTML report needs matplotlib.", remedy="Run `pip install 'paradraft[report]'`.")


def draw_speedups(entries: Sequence[Speedup], baseline: str) -> str:
    """Return bars of the speed-up over a baseline by arm and concurrency, with their 95 % intervals."""
    shown = [(f"{entry.arm}\nx{entry.concurrency}", entry.ratio) for entry in entries if entry.ratio]
    return _bars(shown, f"speed-up over {baseline}")


def draw_categories(entry: Speedup) -> str:
    """Return bars of one arm's speed-up by category of prompt."""
    return _bars(list(entry.by_category.items()), f"{entry.arm}: speed-up over {entry.baseline}")


def draw_acceptance(arms: Sequence[ArmReport]) -> str:
    """Return lines of the acceptance rate by draft position, one for each arm that drafts."""
    figure, axes = _canvas()
    for number, arm in enumerate(arm for arm in arms if arm.acceptance_by_position):
        places = range(1, len(arm.acceptance_by_position) + 1)
        label = f"{arm.name} x{arm.concurrency}"
        axes.plot(places, arm.acceptance_by_position, "o-", color=_colour(number), label=label)
        axes.set_xticks(list(places))
    axes.set_ylim(0, 1)
    axes.set_xlabel("draft position")
    axes.set_ylabel("accepted / drafted")
    if axes.lines:
        axes.legend(frameon=False)
    return _svg(figure)


def draw_gammas(report: BenchReport) -> str:
    """Return the curve of speed-up and acceptance over gamma, for the arms of a sweep at one row."""
    ratios = {entry.arm: entry.ratio for entry in report.speedups if entry.baseline == PLAIN and entry.concurrency == 1}
    arms = [arm for arm in report.arms if arm.concurrency == 1 and arm.gamma and ratios.get(arm.name)]
    figure, axes = _canvas()
    gammas = [arm.gamma or 0 for arm in arms]
    found = [ratio for arm in arms if (ratio := ratios[arm.name])]
    errors = _errors(found)
    axes.errorbar(gammas, [ratio.median for ratio in found], yerr=errors, fmt="o-", color=_COLOURS[0], capsize=3)
    axes.axhline(1.0, color=_GREY, linewidth=1, linestyle="--")
    axes.set_xlabel("gamma")
    axes.set_ylabel("speed-up over plain", color=_COLOURS[0])
    axes.set_xticks(gammas)
    other = axes.twinx()
    other.plot(gammas, [arm.acceptance_rate for arm in arms], "s--", color=_COLOURS[1])
    other.set_ylabel("acceptance rate", color=_COLOURS[1])
    other.set_ylim(0, 1)
    return _svg(figure)


def _bars(entries: Sequence[tuple[str, Ratio]], label: str) -> str:
    figure, axes = _canvas(width=max(5.5, 1.1 * len(entries)))
    places = range(len(entries))
    ratios = [ratio for _, ratio in entries]
    medians = [ratio.median for ratio in ratios]
    colours = [_COLOURS[0] if median >= 1.0 else _COLOURS[1] for median in medians]
    axes.bar(places, medians, yerr=_errors(ratios), color=colours, capsize=4, width=0.6)
    for place, ratio in zip(places, ratios, strict=True):
        axes.annotate(
            f"{ratio.median:.2f}x", (place, ratio.high), xytext=(0, 6), textcoords="offset points", ha="center"
        )
    axes.axhline(1.0, color=_GREY, linewidth=1, linestyle="--")
    axes.set_xticks(list(places), [name for name, _ in entries])
    axes.set_ylabel(label)
    axes.margins(y=0.15)
    return _svg(figure)


def _errors(ratios: Sequence[Ratio]) -> tuple[list[float], list[float]]:
    return [ratio.median - ratio.low for ratio in ratios], [ratio.high - ratio.median for ratio in ratios]


def _canvas(width: float = 6.5) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
