"""A report as a page, as text, CSV and JSON, with its pictures."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext, override

from adaexplore_site.core.plots import Axis, Tick, speedup_axis, speedup_ticks
from judge.values import Basis
from search.interchange.exports import PRODUCT, product_version
from search.reports.build import CAP
from search.reports.values import OVER, RULES, Block, Figure, Line, Report

LEAST_P = 0.1
# Texts of values that know no Django, and of files, which read the same for everybody.
_TEXTS = (
    gettext_noop("eager as PyTorch ships"),
    gettext_noop("the fastest baseline"),
    gettext_noop("judged"),
    gettext_noop("audited"),
    gettext_noop("correct"),
    gettext_noop("speedup, mean of min(s, 10)"),
    gettext_noop("GM(10), geometric mean"),
    gettext_noop("median speedup"),
    gettext_noop("the best search of a problem counts"),
    gettext_noop("the mean over a problem's searches counts"),
)


@dataclass(frozen=True)
class Curve:
    """One step line: `kind` is its CSS class."""

    kind: str
    label: str
    path: str


@dataclass(frozen=True)
class Picture:
    """Step lines over two axes, and one sentence for those who do not see them."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    says: str


@dataclass(frozen=True)
class Bar:
    """A speedup on the axis of a block, in per cent: the point, its interval, and where 1.0 lies."""

    at: float
    low: float
    high: float
    one: float


def shares_picture(block: Block) -> Picture | None:
    """Fast@p over p, judged and audited. None without a correct kernel."""
    tops = [p for points in block.shares.values() for p, _ in points]
    if not any(tops):
        return None
    axis = speedup_axis([LEAST_P, CAP, *tops])
    curves = tuple(
        Curve(name, _(name), _steps([(axis.at(max(p, LEAST_P)), share) for p, share in points], end=100.0))
        for name, points in block.shares.items()
    )
    shares = tuple(Tick(round(100 * (1 - share), 1), f"{share:.0%}") for share in (0.0, 0.5, 1.0))
    says = _("Share of %(count)d problems with a speedup above p, for p from %(least)s to %(most)s.") % {
        "count": len(block.lines),
        "least": f"{LEAST_P:g}",
        "most": f"{axis.high:.0f}",
    }
    ticks = speedup_ticks(axis)
    return Picture(_("Fast@p"), _("p, speedup over eager"), _("problems above p"), curves, ticks, shares, says)


def progress_picture(block: Block) -> Picture | None:
    """Mean over problems of min(best so far, 10) over steps. None without steps."""
    last = block.curve[-1][0] if block.curve else 0
    top = max((value for _, value in block.curve), default=0.0)
    if not last or not top:
        return None
    ceiling = top * 1.1
    points = [(100 * order / last, value / ceiling) for order, value in block.curve]
    x_ticks = tuple(Tick(100.0 * share, f"{round(share * last)}") for share in (0.0, 0.5, 1.0))
    y_ticks = tuple(Tick(round(100 - 100 * share, 1), f"{share * ceiling:.1f}×") for share in (0.0, 0.5, 1.0))
    says = _(
        "Mean speedup of the best so far over %(steps)d steps, each speedup at most %(most)s; it ends at %(end)s."
    ) % {"steps": last, "most": f"{CAP:g}", "end": f"{top:.2f}"}
    curve = Curve("judged", _("judged"), _steps(points, end=100.0))
    return Picture(_("Best so far"), _("steps"), _("mean of min(best, 10)"), (curve,), x_ticks, y_ticks, says)


def bars(block: Block) -> list[Bar | None]:
    """A bar per line of the block, all on one logarithmic axis."""
    ratios = [line.speedup for line in block.lines if line.speedup]
    if not ratios:
        return [None for _ in block.lines]
    ends = [end for ratio in ratios for end in (ratio.value, ratio.low, ratio.high) if end]
    axis = Axis(min(1.0, *ends) / 1.2, max(1.0, *ends) * 1.2, 2.0, 98.0)
    return [
        Bar(
            axis.at(line.speedup.value),
            axis.at(line.speedup.low or line.speedup.value),
            axis.at(line.speedup.high or line.speedup.value),
            axis.at(1.0),
        )
        if line.speedup
        else None
        for line in block.lines
    ]


def _steps(points: Sequence[tuple[float, float]], *, end: float) -> str:
    """A step line through (x in per cent, share of the height)."""
    if not points:
        return ""
    x, share = points[0]
    path = f"M{x:g} {100 - 100 * share:.2f}"
    for x, share in points[1:]:
        path += f"H{x:g}V{100 - 100 * share:.2f}"
    return f"{path}H{end:g}"


_HEAD = ("basis", "device", "population", "over", "metric", "value", "low", "high", "problems", "unknown", "rule")


def report_json(report: Report) -> dict[str, Any]:
    """Everything, field by field."""
    found = dataclasses.asdict(report)
    found["rule_says"] = RULES[report.rule]
    return found


def report_csv(report: Report) -> str:
    """One row per figure, each with its basis and device."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_HEAD)
    for block in report.blocks:
        for table in block.tables:
            for figure in table.figures:
                given = (figure.value, figure.low, figure.high)
                numbers = ["" if value is None else f"{value:.6g}" for value in given]
                place = (block.basis.value, block.device, table.population, table.over, figure.metric)
                writer.writerow([*place, *numbers, figure.n, table.unknown, report.rule])
    return buffer.getvalue()


def report_text(report: Report) -> str:
    """What a terminal shows."""
    lines = [report.title, RULES[report.rule].capitalize() + "."]
    if report.unassisted:
        lines.append(f"Unassisted only: {report.assisted_runs} searches and {report.assisted_nodes} kernels left out.")
    if not report.blocks:
        lines.append("The selection has no searches with times.")
    for block in report.blocks:
        lines += ["", *_block_lines(block)]
    return "\n".join(lines)


def _block_lines(block: Block) -> Iterator[str]:
    basis = "MODELLED" if block.basis is Basis.MODELLED else block.basis.value
    yield f"{block.device_title} ({block.device}), {basis}: {len(block.lines)} problems, {block.runs} searches"
    yield from (f"  {note}" for note in notes(block))
    for table in block.tables:
        if not table.timed:
            yield f"  {table.population}, over {OVER[table.over]}: no kernel was timed against it"
            continue
        yield f"  {table.population}, over {OVER[table.over]}" + _unknown(table.unknown)
        for figure in table.figures:
            yield f"    {figure.label:<28} {figure}"
    for line in block.lines:
        shown = line.measure.whole if line.measure else ("correct, not timed" if line.run else "no correct kernel")
        mark = "" if not line.run or line.audited or block.elsewhere else ", provisional"
        where = f" (run {line.run}, node {line.number})" if line.run else ""
        yield f"  {line.slug:<32} {shown}, numerics {line.numerics}{mark}{where}"


def _unknown(count: int) -> str:
    return f" ({count} correct, not timed against it: left out)" if count else ""


def notes(block: Block) -> list[str]:
    """What the figures leave out, in sentences."""
    found = []
    if block.degenerate:
        values = {"count": len(block.degenerate), "slugs": ", ".join(slug for slug, title in block.degenerate)}
        found.append(_("%(count)d degenerate, excluded from all figures: %(slugs)s.") % values)
    if block.unended:
        text = ngettext(
            "%(count)d search has not ended and counts as of now.",
            "%(count)d searches have not ended and count as of now.",
            block.unended,
        )
        found.append(text % {"count": block.unended})
    if block.unbegun:
        text = ngettext(
            "%(count)d search has no verdict yet and is excluded from all figures.",
            "%(count)d searches have no verdict yet and are excluded from all figures.",
            block.unbegun,
        )
        found.append(text % {"count": block.unbegun})
    if block.provisional_only:
        text = _("%(count)d correct without any audited kernel: audited figures count a failure.")
        found.append(text % {"count": block.provisional_only})
    if block.provisional_faster:
        text = _("%(count)d with a faster kernel that was not audited.")
        found.append(text % {"count": block.provisional_faster})
    if block.basis is Basis.MODELLED:
        found.append(_("Intervals reflect the choice of problems; the error of the model is given with each problem."))
    if block.elsewhere:
        found.append(_("Reported by the source; nothing was measured or audited here."))
    return found


STYLE = Path(__file__).resolve().parent.parent.parent / "static" / "css" / "report.css"


@dataclass(frozen=True)
class Row:
    """One aggregate with a cell per population and baseline."""

    label: str
    cells: tuple[tuple[str, Figure], ...]  # with the head of its column


@dataclass(frozen=True)
class Shown:
    """One block, laid out. `counts`: of problems and of searches, in words."""

    block: Block
    counts: tuple[str, str]
    heads: tuple[str, ...]  # "judged, over eager", ...
    rows: tuple[Row, ...]
    unknown: tuple[str, ...]
    notes: list[str]
    pictures: tuple[Picture, ...]
    lines: tuple[tuple[Line, Bar | None], ...]


def shown(block: Block) -> Shown:
    """Columns without a number, such as torch.compile on the interpreter, are left out."""
    tables = [table for table in block.tables if table.timed and block.lines]
    metrics = [figure.label for figure in tables[0].figures] if tables else []
    heads = tuple(
        _("%(population)s, over %(baseline)s") % {"population": _(table.population), "baseline": _(OVER[table.over])}
        for table in tables
    )
    columns = list(zip(heads, tables, strict=True))
    rows = (
        Row(_(label), tuple((head, table.figures[place]) for head, table in columns))
        for place, label in enumerate(metrics)
    )
    pictures = (shares_picture(block), progress_picture(block))
    return Shown(
        block=block,
        counts=(
            ngettext("%(count)d problem", "%(count)d problems", len(block.lines)) % {"count": len(block.lines)},
            _searches(block.runs),
        ),
        heads=heads,
        rows=tuple(rows),
        unknown=tuple(
            _("%(count)d correct, not timed against %(baseline)s (%(population)s): not in that column.")
            % {"count": table.unknown, "baseline": _(OVER[table.over]), "population": _(table.population)}
            for table in tables
            if table.unknown
        ),
        notes=notes(block),
        pictures=tuple(picture for picture in pictures if picture),
        lines=tuple(zip(block.lines, bars(block), strict=True)),
    )


def _searches(count: int) -> str:
    return ngettext("%(count)d search", "%(count)d searches", count) % {"count": count}


def report_context(report: Report) -> dict[str, object]:
    """What the templates need."""
    kernels = report.assisted_nodes or 0
    return {
        "report": report,
        "blocks": [shown(block) for block in report.blocks],
        "rule_says": _(RULES[report.rule]),
        "assisted": (
            _searches(report.assisted_runs or 0),
            ngettext("%(count)d kernel", "%(count)d kernels", kernels) % {"count": kernels},
        ),
    }


def report_html(report: Report) -> str:
    """The whole report as one HTML file."""
    with override("en"):  # a file reads the same for everybody
        context = report_context(report) | {
            "style": STYLE.read_text(encoding="utf-8"),
            "product": f"{PRODUCT} {product_version()}",
        }
        return render_to_string("reports/standalone.html", context)
