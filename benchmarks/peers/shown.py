"""The comparison as a table and as a picture."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

COLOURS = {
    "paradraft": "#2563a8",
    "llama-cpp": "#c2571a",
    "openvino": "#7a4fa3",
    "vllm": "#2e8b57",
    "transformers": "#888888",
}


def markdown(report: Mapping[str, Any]) -> str:
    """Return the report as tables: figures by concurrency, agreement, and what is absent."""
    parts = [_conditions(report)]
    for rows in report["plan"]["concurrency"]:
        lines = [line for line in report["figures"] if line["rows"] == rows]
        if lines:
            parts.append(_figures(rows, lines, report["ratios"]))
    if report["agreement"]:
        parts.append(_agreement(report["agreement"]))
    if report["absent"]:
        parts.append(
            "\n".join(["Absent:", "", *(f"- {_where(entry)}: {entry['reason']}" for entry in report["absent"])])
        )
    return "\n\n".join(parts)


def _conditions(report: Mapping[str, Any]) -> str:
    plan, provenance, bandwidth = report["plan"], report["provenance"], report["read_bandwidth_gb_s"]
    return (
        f"{provenance['model']['name']} on {provenance['machine']['cpu']}, {plan['threads']} threads, "
        f"{plan['prompts']} {report['prompts']['name']} prompts x {plan['count']} tokens, {plan['repeats']} repeats in "
        f"turns, memory read at {bandwidth['min']:.0f} to {bandwidth['max']:.0f} GB/s in the same run "
        f"({provenance['started_at']}, commit {(provenance['commit'] or 'unknown')[:12]}). "
        "Tokens per second: median (least to most) over repeats." + _runners(report)
    )


def _runners(report: Mapping[str, Any]) -> str:
    """Return on what our own arms ran: torch in place of the native core is another product."""
    found = {facts["runner"]: None for facts in report["engines"].values() if "runner" in facts}
    return f" Paradraft ran on {' and '.join(found)}." if found else ""


def _figures(rows: int, lines: Sequence[Mapping[str, Any]], ratios: Sequence[str]) -> str:
    title = "one prompt at a time" if rows == 1 else f"{rows} prompts at once, all together"
    head = [f"| {title} | decoding | whole answers | prompt | over the best peer (whole) |", "|---|---:|---:|---:|---|"]
    return "\n".join([*head, *(_line(line, ratios) for line in lines)])


def _line(line: Mapping[str, Any], ratios: Sequence[str]) -> str:
    ratio = line["over_best_peer"] if line["precision"] in ratios else None
    over = "" if ratio is None else f"{ratio['whole']['median']:.2f}x {ratio['whole']['peer']}"
    cells = [_cell(line[f"{what}_tokens_per_second"]) for what in ("decode", "whole")]
    return f"| {line['arm']} | {cells[0]} | {cells[1]} | {line['prompt_tokens_per_second']['median']:.0f} | {over} |"


def _cell(figure: Mapping[str, float]) -> str:
    return f"{figure['median']:.1f} ({figure['min']:.1f}-{figure['max']:.1f})"


def _agreement(entries: Sequence[Mapping[str, Any]]) -> str:
    head = [
        "| answers of | compared with | equal | differing by a near-tie | differing otherwise |",
        "|---|---|---:|---:|---:|",
    ]
    return "\n".join(
        [
            *head,
            *(
                f"| {entry['arm']} | {entry['reference']} | {entry['equal']} of {entry['prompts']} "
                f"| {'' if entry['near_ties'] is None else entry['near_ties']} "
                f"| {entry['prompts'] - entry['equal'] - (entry['near_ties'] or 0)} |"
                for entry in entries
            ),
        ]
    )


def _where(entry: Mapping[str, Any]) -> str:
    return entry["arm"] if entry["rows"] is None else f"{entry['arm']}, {entry['rows']} at once"


def draw(report: Mapping[str, Any]) -> str:
    """Return bars of tokens per second of whole answers, one column for each concurrency, as SVG. Needs matplotlib."""
    from matplotlib.figure import Figure

    columns = [
        rows for rows in report["plan"]["concurrency"] if any(line["rows"] == rows for line in report["figures"])
    ]
    names = list(dict.fromkeys(line["arm"] for line in report["figures"]))[::-1]
    figure = Figure(figsize=(3.0 + 3.2 * max(len(columns), 1), 1.6 + 0.3 * len(names)), layout="constrained")
    axes = figure.subplots(1, max(len(columns), 1), sharey=True, squeeze=False)[0]
    for place, rows in zip(axes, columns, strict=False):
        lines = {line["arm"]: line for line in report["figures"] if line["rows"] == rows}
        _bars(place, [lines.get(name) for name in names], names)
        place.set_xlabel(f"tokens/s, {rows} at once")
        place.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(_footer(report), fontsize=7, color="#555555")
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _bars(place: Any, lines: Sequence[Mapping[str, Any] | None], names: Sequence[str]) -> None:
    figures = [
        {"median": 0.0, "min": 0.0, "max": 0.0} if line is None else line["whole_tokens_per_second"] for line in lines
    ]
    medians = [figure["median"] for figure in figures]
    errors = [
        [figure["median"] - figure["min"] for figure in figures],
        [figure["max"] - figure["median"] for figure in figures],
    ]
    colours = ["#dddddd" if line is None else COLOURS.get(line["engine"], "#dddddd") for line in lines]
    place.barh(names, medians, xerr=errors, color=colours, height=0.65, capsize=2)
    for at, (line, value) in enumerate(zip(lines, medians, strict=True)):
        place.text(value, at, " absent" if line is None else f" {value:.0f}", va="center", fontsize=7)


def _footer(report: Mapping[str, Any]) -> str:
    plan, provenance = report["plan"], report["provenance"]
    return (
        f"{provenance['model']['name']}, {provenance['machine']['cpu']}, {plan['threads']} threads, "
        f"{plan['prompts']} {report['prompts']['name']} prompts x {plan['count']} tokens, whole answers, "
        f"medians of {plan['repeats']}; {provenance['started_at'][:10]}, commit {(provenance['commit'] or '?')[:12]}"
    )
