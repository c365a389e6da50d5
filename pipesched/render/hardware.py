"""The texts around the chart of a hardware schedule: heading, summary, and the table of rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipesched.hls.compare import COMPARED, RuleResult, RuleTable
from pipesched.hls.modulo import Intervals
from pipesched.hls.outcome import HardwareOutcome
from pipesched.hls.units import UnitClass
from pipesched.render.grid import fitting, folded, grid, uncut, width_of
from pipesched.render.labels import counted
from pipesched.render.summary import GOOD

STOPS = {"time": "the time limit", "interrupt": "an interrupt"}


def hardware_heading(outcome: HardwareOutcome) -> Text:
    """Return the heading: the name of the graph, its operations by type, and the units."""
    graph, units = outcome.schedule.graph, outcome.schedule.units
    types = Counter(operation.type for operation in graph.operations)
    counts = ", ".join(f"{count} {kind}" for kind, count in types.most_common())
    title = Text(graph.name, style="bold")
    on = ", ".join(f"{unit.count} {unit.name}" for unit in units)
    return title.append(f"  operations: {counts}; units: {on}", style="not bold")


def hardware_summary(outcome: HardwareOutcome, bounds: Intervals | None = None) -> Table:
    """Return a table of metrics, their values and where they come from; `bounds` are those of a loop."""
    table = grid(uncut(), folded(justify="right"), folded(style="dim"), header=False)
    for row in _rows(outcome, bounds):
        table.add_row(*row)
    return table


def _rows(outcome: HardwareOutcome, bounds: Intervals | None) -> Iterator[tuple[str, Text | str, str]]:
    schedule = outcome.schedule
    if bounds is not None:
        yield "initiation interval", Text(f"{schedule.interval}", style="bold"), outcome.method
        asked = f"units ask for {bounds.resources}, recurrences for {bounds.recurrences}"
        yield "lower bound", f"{outcome.bound}", f"{outcome.proof}; {asked}"
        yield "gap", *_gap(outcome, "interval")
        yield "latency", f"{schedule.latency}", "cycles of one iteration"
    else:
        yield "latency", Text(f"{schedule.latency}", style="bold"), f"cycles; {outcome.method}"
        yield "lower bound", f"{outcome.bound}", outcome.proof
        yield "gap", *_gap(outcome, "latency")
    yield "registers", f"{schedule.registers}", "most values alive at a cycle boundary"
    yield "cycles", "", ", ".join(map(_cycles, schedule.units))


def _cycles(unit: UnitClass) -> str:
    return f"{unit.name} {unit.latency}" + (" (pipelined: one a cycle)" if unit.interval < unit.latency else "")


def _gap(outcome: HardwareOutcome, what: str) -> tuple[Text, str]:
    if outcome.status == "optimal":
        return Text("optimal", style=GOOD), f"{what} = lower bound"
    reason = f"({what} - lower bound) / lower bound"
    if outcome.stopped_by:
        reason += f"; stopped by {STOPS[outcome.stopped_by]}"
    return Text(f"{outcome.gap:.2%}"), reason


def rule_table(table: RuleTable, width: int) -> Group:
    """Return latency/registers of every rule, with the least latency marked, and below the optimum and remarks.

    Ties that do not fit side by side into `width` columns get a table of their own.
    """
    return Group(
        Text("latency/registers of list schedules, by priority and tie", style="dim"),
        *(_grid(table, ties) for ties in _side_by_side(table, width)),
        "",
        Text("pairing: first what completes the operands of an operation whose others were issued", style="dim"),
        _optimum_line(table.optimum),
        *table.remarks,
    )


def _cell(result: RuleResult) -> str:
    return f"{result.latency}/{result.registers}"


def _heading(tie: str) -> str:
    return tie.replace("-", "-\n")


def _side_by_side(table: RuleTable, width: int) -> Iterator[list[str]]:
    """Yield the ties in groups that fit side by side, at least one in each."""
    room, ties = width - max(len(priority) for priority, _ in table.results), list(COMPARED)
    cells = {tie: [_cell(cell) for rule, cell in table.results.items() if rule[1] == tie] for tie in ties}
    while ties:
        count = max(fitting((width_of(_heading(tie), cells[tie]) for tie in ties), room), 1)
        yield ties[:count]
        ties = ties[count:]


def _grid(table: RuleTable, ties: Sequence[str]) -> Table:
    """Return a table with a row for each priority and a column for each tie."""
    rows = grid(folded("priority"), *(folded(_heading(tie), justify="right") for tie in ties))
    least = table.optimum.schedule.latency
    for priority in dict.fromkeys(priority for priority, _ in table.results):
        cells = [table.results[priority, tie] for tie in ties]
        styles = [GOOD if cell.latency == least else "" for cell in cells]
        rows.add_row(priority, *map(Text, map(_cell, cells), styles))
    return rows


def _optimum_line(outcome: HardwareOutcome) -> str:
    latency, registers = counted(outcome.schedule.latency, "cycle"), counted(outcome.schedule.registers, "register")
    if outcome.status == "optimal":
        return f"Optimum: {latency} ({registers} in this schedule). Proved by: {outcome.proof}."
    stop = f", stopped by {STOPS[outcome.stopped_by]}" if outcome.stopped_by else ""
    return f"Best found: {latency}; at least {outcome.bound} ({outcome.proof}){stop}."
