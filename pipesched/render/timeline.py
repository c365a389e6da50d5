"""A measured timeline in a terminal: its charts, planned above measured on one scale, and the costs."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from pipesched.analysis.measured.timeline import OVERLAP, Timeline
from pipesched.checks import joined
from pipesched.pipeline.kinds import KINDS
from pipesched.render.comparison import some_devices
from pipesched.render.gantt import Gantt
from pipesched.render.grid import grid, right, uncut
from pipesched.render.marks import counted
from pipesched.render.timescale import number

DIGITS = 3  # behind the point, of times
MARK = "*"  # of costs that waiting may be part of


def timeline_view(timeline: Timeline, *, ascii_only: bool = False) -> RenderableType:
    """Return the charts and the costs."""
    return Group(*charts(timeline, ascii_only=ascii_only), costs_table(timeline), *remarks(timeline))


def charts(timeline: Timeline, *, ascii_only: bool = False) -> Iterator[RenderableType]:
    """Yield what was planned and what was measured as charts on one scale, each with its heading."""
    outcomes = [outcome for _, outcome in timeline.outcomes]
    together = [outcome.schedule for outcome in outcomes]
    for title, outcome in timeline.outcomes:
        rows, legend = some_devices(outcome.problem.devices), outcome is outcomes[-1]
        makespan = f"{_rounded(outcome.schedule.makespan)} {timeline.problem.time_unit}".rstrip()
        yield Text(title, style="bold").append(f"  makespan {makespan}", style="not bold")
        yield Gantt(outcome, rows=rows, together=together, show_legend=legend, ascii_only=ascii_only)
        yield ""


def costs_table(timeline: Timeline) -> Table:
    """Return how long operations took: count, quartiles, and what was planned."""
    has_plan = timeline.plan is not None
    titles = ["count", "q1", "median", "q3"] + ["planned", "measured/planned"] * has_plan
    table = grid(uncut("operation"), *(Column(title, justify="right") for title in titles))
    for cost in timeline.costs:
        mark = MARK if cost.always_waited else ""
        cells = [str(cost.samples), *(_rounded(value) for value in (cost.q1, cost.median, cost.q3))]
        if has_plan:
            cells.append("" if cost.planned is None else _rounded(cost.planned))
            cells.append(f"{cost.median / cost.planned:.2f}" if cost.planned else "")
        name = OVERLAP if cost.kind == OVERLAP else KINDS[cost.kind].name
        table.add_row(f"{name} of stage {cost.stage}{mark}", *cells)
    return table


def remarks(timeline: Timeline) -> Iterator[Text]:
    """Yield what to know of the numbers: steps, clocks, messages, cores, kinds that always waited."""
    unit = timeline.problem.time_unit
    kept = "1 step" if timeline.steps == 1 else f"{timeline.steps} steps"
    of_times = unit and f"; times in {unit}"
    yield Text(f"{timeline.source}, {kept}; drawn is step {timeline.step}, of median makespan{of_times}")
    if any(timeline.offsets):
        signed = [f"{'-' if ahead < 0 else '+'}{_rounded(abs(ahead))}" for ahead in timeline.offsets]
        clocks = joined([f"rank {rank}: {ahead}" for rank, ahead in enumerate(signed) if rank])
        yield Text(f"clocks ahead of that of rank 0, in {unit}: {clocks}")
    if any(cost.always_waited for cost in timeline.costs):
        yield Text(f"{MARK} none was seen to find its input there: where waiting ends rests on the clocks alone")
    known = [row for row in timeline.p2p if row.samples]
    if known:
        times = joined([f"{row.boundary}-{row.boundary + 1}: {_rounded(float(row.p2p))}" for row in known])
        yield Text(f"messages between stages took, in {unit}: {times}")
    if timeline.machine is not None:
        ranks, cores = timeline.machine
        yield Text(f"{counted(ranks, 'rank')} ran on {counted(cores, 'core')}")
    yield from (Text(note) for note in timeline.notes)


def messages_tables(timeline: Timeline) -> Iterator[RenderableType]:
    """Yield what messages took by device, the step with each queue, and which fits; nothing without messages."""
    found, titles = timeline.messages, ["count", "mean time", "planned", "stood behind others"]
    if found is None:
        return
    shown = [0, 1, 2, 3] if timeline.plan else [0, 1, 3]
    rows = ((f"device {device}", *(_rounded(row[at]) for at in shown)) for device, row in enumerate(found.devices))
    yield grid(uncut("\nmessages"), *(right(f"\n{titles[at]}") for at in shown), rows=rows)
    retimed = ((one.queue, *map(_rounded, one[1:])) for one in found.queues)
    yield grid(uncut("\nqueue"), right("\nmakespan"), right("\nstarts off by"), rows=retimed)
    yield Text(f"queue that fits best: {joined([*found.fits])}{' alike' * (len(found.fits) > 1)}")


def _rounded(value: float | None) -> str:
    return "circle" if value is None else number(round(value, DIGITS))
