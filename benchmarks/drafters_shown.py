"""The comparison of drafters as a table and as a picture."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

Figures = Mapping[str, Mapping[str, Any]]
HEADER = (
    "| drafter | tau | drafted per pass | accepted, position 1 / all | draft, ms | pass, ms (plain) "
    "| speed-up (95 %) | worst category |"
)


def markdown(drafters: Figures) -> str:
    """Return one line for each drafter, in their order."""
    lines = [HEADER, "|---|---:|---:|---:|---:|---:|---:|---|"]
    return "\n".join([*lines, *(_line(name, figures) for name, figures in drafters.items())])


def _line(name: str, figures: Mapping[str, Any]) -> str:
    first = (figures["acceptance_by_position"] or [0.0])[0]
    worst = figures["worst_category"]
    return (
        f"| {name} | {figures['tau']:.2f} | {figures['mean_draft_len']:.2f} "
        f"| {first:.2f} / {figures['acceptance_rate']:.2f} | {figures['draft_ms'] + figures['observe_ms']:.2f} "
        f"| {figures['pass_ms']:.2f} ({figures['plain_pass_ms']:.2f}) | {_speedup(figures)} "
        f"| {'' if worst is None else f'{worst[0]} {worst[1]:.2f}x'} |"
    )


def _speedup(figures: Mapping[str, Any]) -> str:
    ratio = figures["speedup"]
    if ratio is None:
        return f"refused: {figures['refused']}"
    return f"{ratio['median']:.2f}x ({ratio['low']:.2f}-{ratio['high']:.2f})"


def draw(drafters: Figures) -> str:
    """Return bars of tau and of the speed-up, side by side, as SVG. Needs matplotlib."""
    from matplotlib.figure import Figure

    names = list(drafters)[::-1]
    figure = Figure(figsize=(9.0, 1.0 + 0.32 * len(names)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    left.barh(names, [drafters[name]["tau"] for name in names], color="#2563a8", height=0.6)
    left.set_xlabel("tau, tokens per pass")
    ratios = [drafters[name]["speedup"] or {"median": 0.0, "low": 0.0, "high": 0.0} for name in names]
    errors = [
        [ratio["median"] - ratio["low"] for ratio in ratios],
        [ratio["high"] - ratio["median"] for ratio in ratios],
    ]
    medians = [ratio["median"] for ratio in ratios]
    colours = ["#2e8b57" if median >= 1.0 else "#c2571a" for median in medians]
    right.barh(names, medians, xerr=errors, color=colours, height=0.6, capsize=2)
    right.set_xlabel("speed-up over plain decoding")
    for axes in (left, right):
        axes.axvline(1.0, color="#666666", linewidth=1, linestyle="--")
        axes.spines[["top", "right"]].set_visible(False)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
