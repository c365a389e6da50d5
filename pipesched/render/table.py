"""Any result in a terminal and in a notebook.

`Table` is the table of a result; `display_parts` gives its chart too; `mime_bundle` gives a notebook text and HTML.
`_TABLES` has a function for each class of result here; the kinds of RESULTS name theirs in results/kinds.py.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from importlib.util import find_spec
from itertools import chain
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from pipesched.checks import shown
from pipesched.display import Displayable, HasPage
from pipesched.errors import ConfigError, PipeschedError
from pipesched.pipeline.bounds.bounds import Bound
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.costs import Costs, Memory, in_one, one_or_all
from pipesched.pipeline.problem.declared import keys_of
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.units import FORWARD_ONLY, SHARED, Shares, Sizes, Slices
from pipesched.render.catalogue import CatalogueTable, catalogue_details
from pipesched.render.comparison import ComparisonTable, drawn, edge, not_drawn, some_devices, sweep_lines
from pipesched.render.figure.draw import image_of
from pipesched.render.gantt import Gantt
from pipesched.render.grid import folded, grid, uncut
from pipesched.render.scene import number
from pipesched.render.summary import heading, summary
from pipesched.render.view import View
from pipesched.results.comparison import Comparison, Frontier, Sweep
from pipesched.results.kinds import RESULTS, kind_of
from pipesched.results.outcome import Outcome, SolveReport
from pipesched.schedulers.family import Family
from pipesched.schedulers.registry import Catalogue

TIMES = ("forward", "backward", "p2p")  # of a problem, which have its unit
MOST_SLOTS = 24  # of a device that a plan's table shows


class Table(Displayable):
    """The table of a result, for Rich.

    It shows the metrics of an Outcome or a Schedule, the rows of a Comparison, a Sweep, a Frontier, a Robustness or a
    Catalogue, or the description of a Family. It shows the values of a Problem, of its Costs, its Memory or its
    Placement, of a Bound or a SolveReport, or the orders of a Plan. Raises ConfigError for anything else.
    """

    def __init__(self, result: object) -> None:
        kind, known = kind_of(result)
        table = next((table for one, table in _TABLES.items() if isinstance(result, one)), None)
        if kind:
            table = RESULTS[kind].load("table" if RESULTS[kind].table else "view")
        if table is None:
            raise ConfigError(f"must be a result (an Outcome, a Comparison, ..), not {shown(result)}", "result")
        self.table = table(known)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.table


def display_parts(result: object, *, ascii_only: bool = False) -> Iterator[RenderableType]:
    """Yield what a notebook shows of a result: its chart, if it has one, and its table."""
    kind, _ = kind_of(result)
    if isinstance(result, Schedule):
        yield from (Gantt(result), "")
        yield f"makespan {number(result.makespan)} {result.problem.time_unit}".rstrip()
    elif isinstance(result, (Gantt, Table)):
        yield result
    elif kind:
        yield RESULTS[kind].load("view")(result, ascii_only=ascii_only)
    else:
        yield Table(result)


def schedule_view(outcome: Outcome, **_: bool) -> Group:
    """Return the heading, the chart and the metrics of a schedule."""
    return Group(heading(outcome), Gantt(outcome), "", summary(outcome))


def comparison_view(comparison: Comparison, *, ascii_only: bool = False) -> Group:
    """Return the charts of some schedules on one scale of time, and the table of all; of a document the table alone."""
    parts: list[RenderableType] = []
    chosen = drawn(comparison, None)
    together = [outcome.schedule for outcome in chosen]
    until = edge(together, comparison) if chosen else None
    for outcome in chosen:
        rows, legend = some_devices(outcome.problem.devices), outcome is chosen[-1]
        chart = Gantt(outcome, rows=rows, together=together, until=until, show_legend=legend, ascii_only=ascii_only)
        parts += [heading(outcome).append(not_drawn(outcome.schedule, until, rows), style="dim"), chart, ""]
    return Group(*parts, ComparisonTable(comparison, ascii_only=ascii_only))


def _problem_table(problem: Problem) -> RenderableType:
    """Return the values of a problem: sizes, costs and memory, one number where all stages are equal."""
    costs, memory = problem.costs, problem.memory
    rows: list[tuple[str, object]] = [
        ("devices", problem.devices),
        ("stages", problem.stages),
        ("microbatches", problem.batches),
        ("rounds", problem.rounds if problem.rounds > 1 else None),
        ("mode", problem.mode if problem.mode == FORWARD_ONLY else None),
        *_sizes(problem.sizes),
        *_slices(problem.slices),
        ("placement", "auto" if problem.placement is None else shown(problem.placement.devices)),
        ("forward", one_or_all(costs.forward)),
        *((key, one_or_all(getattr(costs, key))) for key in costs.given_backward if problem.mode != FORWARD_ONLY),
        ("p2p", one_or_all(costs.p2p) if costs.p2p else 0),
        ("speed", None if problem.speed is None else one_or_all(problem.speed)),
        ("links", None if problem.links is None else shown(problem.links)),
        ("overlap", None if costs.overlap is None else one_or_all(costs.overlap)),
        ("offload", None if costs.offload is None else one_or_all(costs.offload)),
        ("activation", f"{one_or_all(memory.activation)} {memory.unit}".strip()),
        ("kv", memory.kv or None),
        ("static", one_or_all(memory.static)),
        ("budget", "none" if memory.budget is None else one_or_all(memory.budget)),
    ]
    unit = f" {problem.time_unit}" if problem.time_unit else ""
    return _values((name, None if value is None else f"{value}{unit if name in TIMES else ''}") for name, value in rows)


def _sizes(sizes: Sizes | None) -> Iterator[tuple[str, object]]:
    for field in () if sizes is None else fields(sizes):
        factors = getattr(sizes, field.name)
        yield f"x {field.name}", one_or_all(factors) if len({*factors}) > 1 else None


def _slices(slices: Slices) -> Iterator[tuple[str, object]]:
    """Yield how microbatches are cut, if they are: the parts that slices have of the tokens, and of the work."""
    if slices.rule is not None:
        yield "slices", f"to be found, at most {slices.rule.most}"
    elif slices.count > 1:
        yield "slices", slices.count
        yield "  tokens", _parts([slices.tokens])
        by_kind = {f"  {key.replace('_', ' ')}": _parts(getattr(slices, key)) for key in SHARED}
        yield from by_kind.items() if len({*by_kind.values()}) > 1 else [("  work", by_kind.popitem()[1])]
    yield "  overhead", ", ".join(map(str, in_one([slices.overhead]))) if slices.overhead else None


def _parts(of_stages: Sequence[Shares]) -> str:
    """Return the parts that slices have, of every stage or of each."""
    if {*chain(*of_stages)} == {of_stages[0][0]}:
        return "equal"
    rows = [[float(f"{float(part):.6g}") for part in row] for row in of_stages]
    return shown(rows if len(rows) > 1 else rows[0])


def _values(rows: Iterable[tuple[str, object]]) -> RenderableType:
    """Return a row for each name and its value, but for those that are None."""
    shown_rows = ((name, str(value)) for name, value in rows if value is not None)
    return grid(uncut(style="dim"), folded(), rows=shown_rows, header=False)


def _lists(noun: Costs | Memory, keys: Iterable[str]) -> RenderableType:
    values = ((key, getattr(noun, key) or None) for key in keys)
    return _values((key, one_or_all(value) if isinstance(value, tuple) else value) for key, value in values)


def _report_table(report: SolveReport) -> RenderableType:
    bound = report.bound
    proof = {
        "status": report.standing,
        report.objective: number(report.value),
        "bound": f"{number(bound.value)}   {bound.reason}; for {report.covers}",
        "gap": f"{report.gap:.1%}",
        "stopped by": report.stopped_by,
        "source": report.source,
        "placements": ", ".join(report.placements) or None,
    }
    return _values(proof.items())


def _plan_table(plan: Plan) -> RenderableType:
    table = grid(uncut(style="dim"), folded(), header=False)
    for device, order in enumerate(plan.orders):
        texts = [str(plan.slot(number)) for number in order[:MOST_SLOTS]]
        more = f" .. {len(order) - MOST_SLOTS} more" if len(order) > MOST_SLOTS else ""
        table.add_row(f"device {device}", Text(" ".join(texts) + more))
    return table


_TABLES: Mapping[type, Callable[[Any], RenderableType]] = {
    Catalogue: CatalogueTable,
    Family: lambda family: catalogue_details([family]),
    Problem: _problem_table,
    Costs: lambda costs: _lists(costs, [key for key in keys_of("costs") if key not in costs.unsaid]),
    Memory: lambda memory: _lists(memory, keys_of("memory")),
    Placement: lambda placement: _values(
        (f"device {device}", f"stages {shown(placement.stages_on(device))}") for device in range(placement.last + 1)
    ),
    Sizes: lambda sizes: _values(_sizes(sizes)),
    Slices: lambda slices: _values(_slices(slices)),
    Bound: lambda bound: _values([("bound", number(bound.value)), ("reason", bound.reason or None)]),
    SolveReport: _report_table,
    Plan: _plan_table,
}

COLUMNS = 110
MOST_EMBEDDED = 300_000  # letters of picture and frame: a larger page is left to `to_html`
HTML = '<pre style="line-height:1.2;white-space:pre;overflow-x:auto;font-family:monospace">{code}</pre>'


def mime_bundle(result: object) -> dict[str, str]:
    """Return a result by MIME type: as text/plain and as text/html; a frontier or a sweep also as SVG."""
    stream = io.StringIO()
    console = Console(file=stream, width=COLUMNS, color_system=None, **_SETTINGS)
    for part in display_parts(result):
        console.print(part)
    text = "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())  # without colour
    drawable = (isinstance(result, Frontier) and result.points) or (isinstance(result, Sweep) and sweep_lines(result))
    if drawable and find_spec("matplotlib") is not None:
        picture = image_of(result, View(), "svg").decode()
        inside = picture[picture.index("<svg") :]
        return {"text/plain": text, "text/html": f"{inside}{html(result)}", "image/svg+xml": picture}
    page = framed(result) if isinstance(result, HasPage) else None
    return {"text/plain": text, "text/html": page or html(result)}


def framed(result: object) -> str | None:
    """Return the still picture of schedules, and their page in a frame unless it is too large; None without any."""
    from pipesched.render.html.page import embedded, page, still, titled

    try:
        schedules = titled(result)
        document = page(result)
    except PipeschedError:  # rows of a file without schedules, say, or a schedule that breaks a rule
        return None
    rows = sum(outcome.problem.devices for _, outcome in schedules)
    frame = embedded(document, ", ".join(name for name, _ in schedules), height=min(520 + 32 * rows, 900))
    picture = still(schedules)
    if len(picture) + len(frame) > MOST_EMBEDDED:
        frame = "<p>The page is too large for a notebook: <code>.to_html(path)</code> writes it.</p>"
    return f"{picture}{frame}"


def html(result: object) -> str:
    """Return a result as coloured HTML that needs no style sheet."""
    console = Console(file=io.StringIO(), width=COLUMNS, record=True, color_system="truecolor", **_SETTINGS)
    for part in display_parts(result):
        console.print(part)
    return console.export_html(inline_styles=True, code_format=HTML)


_SETTINGS: dict[str, Any] = {"force_terminal": True, "force_jupyter": False, "legacy_windows": False}
_SETTINGS |= {"highlight": False, "markup": False, "emoji": False}
