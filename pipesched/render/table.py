"""The table of any result, and the parts that a terminal or a notebook shows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from pipesched.checks import shown
from pipesched.display import Displayable
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import one_or_all
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule
from pipesched.render.catalogue import CatalogueTable, catalogue_details
from pipesched.render.chosen import drawn, edge, not_drawn, some_devices
from pipesched.render.comparison import ComparisonTable
from pipesched.render.gantt import Gantt
from pipesched.render.grid import folded, grid, uncut
from pipesched.render.pareto import frontier_table, frontier_view
from pipesched.render.summary import heading, summary
from pipesched.render.sweep import sweep_table, sweep_view
from pipesched.results.capabilities import capability_of
from pipesched.results.comparison import Comparison
from pipesched.results.frontier import Frontier
from pipesched.results.outcome import Outcome
from pipesched.results.sweep import Sweep
from pipesched.schedulers.family import Family
from pipesched.schedulers.registry import Catalogue

MOST_SLOTS = 24  # of a device that a plan's table shows


class Table(Displayable):
    """The table of a result, for Rich.

    It shows the metrics of an Outcome or a Schedule, the rows of a Comparison, a Sweep, a Frontier, a Robustness or a
    Catalogue, the description of a Family, the values of a Problem, or the orders of a Plan. Raises ConfigError for
    anything else.
    """

    def __init__(self, result: object) -> None:
        self.parts = list(_tables(result))
        if not self.parts:
            raise ConfigError(f"must be a result (an Outcome, a Comparison, ..), not {shown(result)}", "result")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table."""
        yield from self.parts


def _tables(result: object) -> Iterator[RenderableType]:
    for kind, table in _TABLES.items():
        if isinstance(result, kind):
            yield table(result)
            return
    capability = capability_of(result)
    if capability is not None:
        yield capability.load("table" if capability.table else "view")(result)


def display_parts(result: object, *, ascii_only: bool = False) -> Iterator[RenderableType]:
    """Yield what a notebook shows of a result: its chart, if it has one, and its table."""
    if isinstance(result, Outcome):
        yield heading(result)
        yield Gantt(result)
        yield ""
        yield summary(result)
    elif isinstance(result, Schedule):
        yield Gantt(result)
    elif isinstance(result, Frontier) and result.points:
        yield frontier_view(result, ascii_only=ascii_only)
    elif isinstance(result, Sweep):
        yield sweep_view(result, ascii_only=ascii_only)
    elif isinstance(result, Comparison):
        yield from _charts(result, ascii_only)
        yield ComparisonTable(result, ascii_only=ascii_only)
    elif isinstance(result, (Gantt, Table)):
        yield result
    elif (capability := capability_of(result)) is not None:
        yield capability.load("view")(result, ascii_only=ascii_only)
    else:
        yield Table(result)


def _charts(comparison: Comparison, ascii_only: bool) -> Iterator[RenderableType]:
    """Yield the charts of a comparison on one scale, each with its heading; none of rows without schedules."""
    chosen = drawn(comparison, None)
    if not chosen:
        return
    together = [outcome.schedule for outcome in chosen]
    until = edge(together, comparison)
    for outcome in chosen:
        rows, legend = some_devices(outcome.problem.devices), outcome is chosen[-1]
        remarks = "".join(f"; {remark}" for remark in not_drawn(outcome.schedule, until, rows))
        yield heading(outcome).append(remarks, style="dim")
        yield Gantt(outcome, rows=rows, together=together, until=until, show_legend=legend, ascii_only=ascii_only)
        yield ""


def _problem_table(problem: Problem) -> RenderableType:
    """Return the values of a problem: sizes, costs and memory, one number where all stages are equal."""
    table = grid(uncut(style="dim"), folded(), header=False)
    costs, memory = problem.costs, problem.memory
    halves = (("backward_input", costs.backward_input), ("backward_weight", costs.backward_weight))
    rows: list[tuple[str, object]] = [
        ("devices", problem.devices),
        ("stages", problem.stages),
        ("microbatches", problem.microbatches),
        ("placement", "auto" if problem.placement is None else shown(problem.placement.devices)),
        ("forward", one_or_all(costs.forward)),
        *((key, one_or_all(values)) for key, values in (halves if costs.split else (("backward", costs.backward),))),
        ("p2p", one_or_all(costs.p2p) if costs.p2p else 0),
        *(
            (key, one_or_all(values))
            for key, values in (("overlap", costs.overlap), ("offload", costs.offload))
            if values is not None
        ),
        ("activation", f"{one_or_all(memory.activation)} {memory.unit}".strip()),
        ("static", one_or_all(memory.static)),
        ("budget", "none" if memory.budget is None else one_or_all(memory.budget)),
    ]
    for name, value in rows:
        unit = f" {problem.time_unit}" if problem.time_unit and name in ("forward", "backward", "p2p") else ""
        table.add_row(name, f"{value}{unit}")
    return table


def _plan_table(plan: Plan) -> RenderableType:
    """Return the orders of a plan: the first slots of each device."""
    table = grid(uncut(style="dim"), folded(), header=False)
    for device, order in enumerate(plan.orders):
        texts = [str(plan.slot(number)) for number in order[:MOST_SLOTS]]
        more = f" .. {len(order) - MOST_SLOTS} more" if len(order) > MOST_SLOTS else ""
        table.add_row(f"device {device}", Text(" ".join(texts) + more))
    return table


_TABLES: Mapping[type, Callable[[Any], RenderableType]] = {
    Outcome: summary,
    Schedule: lambda schedule: summary(Outcome("plan", schedule)),
    Comparison: ComparisonTable,
    Sweep: sweep_table,
    Frontier: frontier_table,
    Catalogue: CatalogueTable,
    Family: lambda family: catalogue_details([family]),
    Problem: _problem_table,
    Plan: _plan_table,
}
