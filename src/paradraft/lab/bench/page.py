"""The report of a benchmark as one HTML file with its pictures inside; it loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from paradraft.lab.bench.compare_arms import Ratio
from paradraft.lab.bench.pictures import draw_acceptance, draw_categories, draw_gammas, draw_speedups
from paradraft.lab.bench.plan import CONTROL
from paradraft.lab.bench.records import BenchReport
from paradraft.lab.near_ties import is_near_tie

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1c1c1c; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; font-size: .9rem; margin: .8rem 0; display: block; overflow-x: auto; }
td, th { padding: .25rem .7rem; border-bottom: 1px solid #e4e4e4; text-align: right; white-space: nowrap; }
td:first-child, th:first-child { text-align: left; }
figure { margin: 1rem 0; } figcaption { color: #555; font-size: .9rem; } svg { max-width: 100%; height: auto; }
.warning { background: #fff4e0; border-left: 4px solid #c2571a; padding: .4rem .8rem; margin: .4rem 0; }
code { font-size: .85rem; overflow-wrap: anywhere; }
"""
_MAX_DIFFERENCES = 40


def build_page(report: BenchReport) -> str:
    """Return the HTML text."""
    parts = [
        f"<h1>{escape(str(report.provenance.model.get('name', 'model')))}: speculative against plain decoding</h1>",
        _conditions(report),
        *(f'<p class="warning">{escape(warning)}</p>' for warning in report.warnings),
        "<h2>Speed</h2>",
        *_speed(report),
        "<h2>Arms</h2>",
        _arms(report),
        "<h2>Acceptance by draft position</h2>",
        _figure(
            draw_acceptance(report.arms), "Share of the drafts reaching a position whose token there was accepted."
        ),
        *_gammas(report),
        "<h2>By category</h2>",
        *_categories(report),
        "<h2>By output length</h2>",
        _lengths(report),
        *_prompt_processing(report),
        "<h2>Equal answers</h2>",
        _equality(report),
        "<h2>Provenance</h2>",
        _provenance(report),
    ]
    body = "\n".join(parts)
    head = f'<meta charset="utf-8"><title>Benchmark</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _conditions(report: BenchReport) -> str:
    plan = report.plan
    return (
        f"<p>{len(report.prompt_ids)} prompts of {escape(report.prompt_set)}, {plan.max_tokens} tokens each "
        f"(end-of-sequence ignored, so that lengths are equal), temperature {plan.temperature:g}, "
        f"{escape(report.provenance.dtype)}, {plan.repeats} paired repeats in which the arms take turns. "
        "Throughput includes prompt processing.</p>"
    )


def _speed(report: BenchReport) -> Iterable[str]:
    for baseline in dict.fromkeys(entry.baseline for entry in report.speedups):
        entries = [entry for entry in report.speedups if entry.baseline == baseline]
        if any(entry.ratio for entry in entries):
            yield _figure(draw_speedups(entries, baseline), "Median of paired repeats with the 95 % interval.")
        for entry in entries:
            if entry.refused:
                where = f"{entry.arm} over {baseline} at concurrency {entry.concurrency}"
                yield f'<p class="warning">No speed-up for {escape(where)}: {escape(entry.refused)}.</p>'
        yield _table(
            ("arm", "concurrency", "speed-up", "95 % interval"),
            [(entry.arm, str(entry.concurrency), *_ratio(entry.ratio)) for entry in entries],
        )


def _arms(report: BenchReport) -> str:
    heads = (
        "arm",
        "rows",
        "tokens/s",
        "min",
        "max",
        "tau",
        "acceptance",
        "effective",
        "steps",
        "predicted",
        "pays from tau",
    )
    rows = [
        (
            arm.name,
            str(arm.concurrency),
            f"{arm.tokens_per_second.median:.1f}",
            f"{arm.tokens_per_second.min:.1f}",
            f"{arm.tokens_per_second.max:.1f}",
            f"{arm.tau:.2f}",
            f"{arm.acceptance_rate:.1%}",
            f"{arm.effective_acceptance_rate:.1%}",
            str(arm.steps.measured),
            f"{arm.steps.predicted:.0f}",
            "-" if arm.break_even_tau is None else f"{arm.break_even_tau:.2f}",
        )
        for arm in report.arms
    ]
    return _table(heads, rows)


def _gammas(report: BenchReport) -> Iterable[str]:
    if len({arm.gamma for arm in report.arms if arm.gamma}) > 1:
        yield "<h2>Draft length</h2>"
        yield _figure(
            draw_gammas(report), "Acceptance falls as gamma grows; the speed-up has its peak where both balance."
        )


def _categories(report: BenchReport) -> Iterable[str]:
    shown = [entry for entry in report.speedups if entry.by_category and entry.arm != CONTROL]
    if not shown:
        yield "<p>Only measured with one row at a time.</p>"
    for entry in shown:
        yield _figure(draw_categories(entry), f"{entry.arm} over {entry.baseline}; the worst category counts.")


def _lengths(report: BenchReport) -> str:
    rows = [
        (entry.arm, entry.baseline, str(entry.concurrency), length, *_ratio(ratio))
        for entry in report.speedups
        for length, ratio in entry.by_output_length.items()
    ]
    return _table(("arm", "baseline", "rows", "output tokens", "speed-up", "95 % interval"), rows)


def _prompt_processing(report: BenchReport) -> Iterable[str]:
    if report.prompt_processing:
        yield "<h2>Prompt processing</h2>"
        yield _table(
            ("arm", "prompt tokens", "seconds to one token", "min", "max"),
            [
                (
                    time.arm,
                    str(time.prompt_tokens),
                    *(f"{s:.3f}" for s in (time.seconds.median, time.seconds.min, time.seconds.max)),
                )
                for time in report.prompt_processing
            ],
        )


def _equality(report: BenchReport) -> str:
    rows = [
        (
            arm.name,
            str(arm.concurrency),
            difference.prompt,
            str(difference.position),
            "-" if difference.margin is None else f"{difference.margin:.4g}",
            difference.place or "-",
            "yes" if is_near_tie(difference, report.near_tie_bound) else "NO",
        )
        for arm in report.arms
        for difference in arm.differences
    ]
    equal = [f"{arm.name} x{arm.concurrency}" for arm in report.arms if arm.identical_to_plain]
    text = (
        f"<p>Every token equal to plain decoding: {escape(', '.join(equal) or 'none')}. A first difference counts as "
    )
    text += f"a near-tie up to a logit margin of {report.near_tie_bound:g}.</p>"
    heads = ("arm", "rows", "prompt", "first different token", "margin", "of", "near-tie")
    return text + (_table(heads, rows[:_MAX_DIFFERENCES]) if rows else "")


def _provenance(report: BenchReport) -> str:
    source = report.provenance
    facts = [
        ("command", source.command),
        ("commit", source.commit or "-"),
        ("started", source.started_at),
        ("prompt set", f"{report.prompt_set}, SHA-256 of its token ids {report.prompt_sha256}"),
        *((f"model {key}", str(value)) for key, value in source.model.items()),
        *((key, str(value)) for key, value in source.machine.items()),
        *((key, str(value)) for key, value in source.versions.items()),
        ("settings", str(dict(source.settings))),
    ]
    rows = "".join(f"<tr><td>{escape(name)}</td><td><code>{escape(value)}</code></td></tr>" for name, value in facts)
    return f"<table>{rows}</table>"


def _ratio(ratio: Ratio | None) -> tuple[str, str]:
    return (f"{ratio.median:.2f}x", f"{ratio.low:.2f} - {ratio.high:.2f}") if ratio else ("refused", "-")


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"
