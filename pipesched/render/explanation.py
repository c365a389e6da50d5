"""What `explain` says below the chart, `explanation_view`: idle time by class, the largest gaps, sensitivities, moves.

Of a measured timeline, `timeline_view`: planned above measured on one scale, and what operations and messages took.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from rich.console import Group, RenderableType, group
from rich.table import Column, Table
from rich.text import Text

from pipesched.analysis.explain import OVERLAP, Explanation, IdleGap, Planner, Sensitivity, Why, numbers_of, what_if
from pipesched.analysis.measured.ranges import ops_of
from pipesched.analysis.measured.timeline import Timeline
from pipesched.checks import joined
from pipesched.core.reasons import Idle, classes
from pipesched.pipeline.plan.plan import SIDE_KINDS
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.problem.kinds import ALL_KINDS, KINDS, STEP_KINDS
from pipesched.pipeline.problem.ops import Op
from pipesched.render.comparison import some_devices
from pipesched.render.gantt import Gantt, MarkLines
from pipesched.render.grid import grid, right, uncut
from pipesched.render.palette import IDLE_MARKS
from pipesched.render.scene import counted, number
from pipesched.results.timed_moves import moved_before

MOST_DEVICES = 16  # with a row of their own; of more, the worst ones
WORST = 6
MOST_GAPS = 10
MOST_COSTS = 8
MOST_CHAIN = 12
LONG = 10_000  # idle time, from which tables have whole units
TENTH = Fraction(9, 10)  # of a cost that is 10 % lower


def explanation_parts(explanation: Explanation, plan_again: Planner | None = None) -> Iterator[RenderableType]:
    """Yield the tables and sentences of an explanation; `plan_again` makes schedules of changed problems."""
    unit, schedule = explanation.schedule.problem.time_unit, explanation.schedule
    yield idle_table(explanation)
    claim, here = explanation.claim, explanation.here
    times = (explanation.makespan, claim.bound.value, explanation.idle, explanation.unavoidable)
    makespan, bound, idle, never = (f"{number(time)} {unit}".rstrip() for time in times)
    if not explanation.idle:
        said = "no device ever idles"
    elif not explanation.avoidable:
        said = f"proved: no order avoids any of the {idle} idle time"
    else:
        left = f"{number(explanation.avoidable)} {unit}".rstrip()
        said = f"no order avoids {never} of the {idle} idle time; {left} is open"
    gap = f", gap {explanation.gap:.1%}" if explanation.gap else ""
    parts = [f"makespan {makespan}, bound {bound} for {claim.covers}{gap}"]
    if claim.bound.ticks != here.bound.ticks:
        parts.append(f"bound {number(here.bound.value)} {unit}".rstrip() + f" for {here.covers}")
    yield Text("; ".join([*parts, said]))
    early = schedule_plan(schedule.problem, schedule.plan, schedule.lengths).makespan
    if early != explanation.makespan:  # of a schedule that is late: what its order takes without that
        time = f"{number(early)} {unit}".rstrip()
        yield Text(f"the same order at its earliest times takes {time}: costs and moves below change that")
    yield Group("", Text("largest gaps", style="bold"), _gap_table(explanation))
    yield Group("", Text("what a cost does", style="bold"), _sensitivity_table(explanation, plan_again))
    yield Group("", Text("moves", style="bold"), *move_lines(explanation))


def explanation_view(explanation: Explanation, *, ascii_only: bool = False) -> RenderableType:
    """Return all that is known about a schedule: the chart with its marks, tables and sentences."""
    chart = Gantt(explanation.schedule, marks=MarkLines(explanation), ascii_only=ascii_only)
    return Group(chart, "", *explanation_parts(explanation))


def idle_table(explanation: Explanation) -> Table:
    """Return idle time by class and device; of many devices those that idle longest, and the sum of the others."""
    rows, idle = explanation.devices, explanation.idle_of_devices
    totals = explanation.totals
    used = [kind for kind in classes(measured=explanation.is_measured, queued=True) if totals.get(kind)]

    def told(time: int | float) -> str:
        """Return a time, of a long table without the digits of a fraction, which say nothing beside many digits."""
        return (f"{time:.0f}" if explanation.idle >= LONG else number(time)) if time else "."

    table = grid(uncut("idle"), *map(right, (*(IDLE_MARKS[kind].meaning for kind in used), "all")))
    listed = list(range(len(rows)))
    if len(rows) > MOST_DEVICES:
        listed = sorted(sorted(listed, key=lambda device: -idle[device])[:WORST])
    for device in listed:
        table.add_row(f"device {device}", *(told(rows[device][kind]) for kind in used), told(idle[device]))
    others = [device for device in range(len(rows)) if device not in set(listed)]
    if others:
        sums = [sum(rows[device][kind] for device in others) for kind in used]
        table.add_row(f"{len(others)} others", *map(told, sums), told(sum(idle[d] for d in others)))
    whole = explanation.schedule.problem.devices * explanation.makespan
    table.add_row("sum", *(told(totals[kind]) for kind in used), told(explanation.idle), style="bold")
    shares = [f"{time / whole:.1%}" if whole else "0%" for time in (*(totals[k] for k in used), explanation.idle)]
    table.add_row("of device-time", *shares, style="dim")
    return table


def _gap_table(explanation: Explanation) -> RenderableType:
    """Return a line for each of the ten longest gaps: where, when, of which class, and why."""
    told = [gap for gap in explanation.gaps if explanation.counts(gap.length)]
    longest = sorted(told, key=lambda gap: (-gap.length, gap.device, gap.start))[:MOST_GAPS]
    if not longest:
        return Text("none: no device ever idles")
    table = grid(uncut(), uncut(), uncut(), Column(style="dim"), header=False)
    pairs = [
        (explanation.number_of(gap.culprit), explanation.number_of(gap.waiting))
        for gap in longest
        if gap.idle is Idle.ORDER and gap.waiting is not None
    ]
    if_moved = moved_before(explanation.schedule, pairs)
    for gap in longest:
        times = f"{number(gap.start)} to {number(gap.end)}"
        words = gap_words(gap, explanation.schedule.problem.time_unit)
        if gap.idle is Idle.ORDER and (after := next(if_moved)) is not None:
            words += f" (before it: {number(after)})"
        table.add_row(f"device {gap.device}", times, IDLE_MARKS[gap.idle].meaning, words)
    return table


def gap_words(gap: IdleGap, unit: str = "") -> str:
    """Say what a device waits for in a gap, and because of what; `unit` is the label of times."""
    culprit, waiting = gap.culprit, gap.waiting
    more = f"{number(gap.more)} {unit}".rstrip() if gap.more > 0 else "no"
    could_run = {
        Idle.ORDER: f"{culprit} could run, but {waiting} comes first in the order",
        Idle.MEMORY: f"{culprit} could run, but its activation does not fit the budget",
        Idle.LATE: f"{culprit} starts later than it could",
        Idle.MESSAGE: f"{culprit}'s input from device {gap.sender} took {more} longer than planned",
        Idle.RUNTIME: f"{culprit} could run, the rank had not begun it",
    }
    if gap.idle in could_run:
        return could_run[gap.idle]
    if gap.idle is Idle.QUEUE:
        who = "all done here; message" if waiting is None else f"{waiting} waits: message"
        issued = f"issued {gap.places} earlier, whose sender" if gap.places else "which"
        until = f", {issued} runs until {number(gap.until)} {unit}".rstrip()
        return f"{who} {culprit} {'is on its way' if gap.behind is None else f'stands behind {gap.behind}{until}'}"
    is_transfer = isinstance(culprit, Op) and ALL_KINDS[culprit.kind].is_transfer
    if waiting is None:
        runs = gap.idle is Idle.DRAIN or is_transfer
        return f"all done here; {culprit} still runs" if runs else f"all done here; after {culprit}"
    if gap.idle is Idle.TRANSFER:
        return f"{waiting} waits for {culprit if is_transfer else f'the transfer after {culprit}'}"
    ways = [(before, after) for before in ops_of(culprit) for after in ops_of(waiting)]  # of pairs of a microbatch
    before, after = next((way for way in ways if way[0].microbatch == way[1].microbatch), ways[0])
    is_passed = before.stage != after.stage and {before.kind, after.kind}.isdisjoint(SIDE_KINDS)
    through = f", through stages {before.stage}-{after.stage}" if is_passed else ""
    return f"{waiting} waits for {culprit}{through}"


def _sensitivity_table(explanation: Explanation, plan_again: Planner | None) -> RenderableType:
    """Return the costs that hurt most: exact effects of small changes, and of 10 % less."""
    rows = [row for row in explanation.sensitivity if row.faster or row.slower]
    if not rows:
        return Text("no cost changes the makespan")
    schedule = explanation.schedule
    rows.sort(key=lambda row: (-row.faster * _cost(explanation, row), -row.slower, row.stage, row.kind))
    titles = ["a unit less", "a unit more", "10% less"] + ["planned again"] * (plan_again is not None)
    table = grid(uncut("cost of a stage"), *(Column(title, justify="right") for title in titles))
    for row in rows[:MOST_COSTS]:
        same_order, planned = what_if(schedule, row.stage, row.kind, TENTH, plan_again)
        again = "" if planned is None else number(planned)
        cells = [f"-{row.faster}" if row.faster else "0", f"+{row.slower}", number(same_order)]
        kind = OVERLAP if row.kind == OVERLAP else ALL_KINDS[row.kind].name
        place = "item" if row.kind in SIDE_KINDS else "stage"
        table.add_row(f"{kind} of {place} {row.stage}", *cells, *([again] if plan_again else []))
    latencies = sorted(explanation.p2p_sensitivity, key=lambda row: (-row.faster, -row.slower, row.boundary))
    for one in latencies[: MOST_COSTS // 2]:
        if one.faster or one.slower:
            table.add_row(
                f"p2p {one.boundary}-{one.boundary + 1}", f"-{one.faster}" * bool(one.faster) or "0", f"+{one.slower}"
            )
    return table


def _cost(explanation: Explanation, row: Sensitivity) -> int:
    ticks, schedule = explanation.schedule.problem.ticks, explanation.schedule
    if row.kind in STEP_KINDS:
        return max(schedule.graph.durations[number] for number in numbers_of(schedule.plan.index, row[:2]))
    if row.kind == OVERLAP:
        return ticks.mean["overlap"][row.stage] if "overlap" in ticks.mean else 0
    return ticks.of(row.kind)[row.stage]


def move_lines(explanation: Explanation) -> Iterator[Text]:
    """Yield a sentence for each move that shortens the schedule, or that none does."""
    unit = explanation.schedule.problem.time_unit
    for move in explanation.moves:
        to = f"{move.to}" if move.first == move.last else f"positions {move.first} to {move.last}"
        where = f"device {move.device}, position {move.start} to {to}"
        makespan = f"{number(move.makespan)} {unit}".rstrip()
        memory = f"{number(move.memory)} {explanation.schedule.problem.memory.unit}".rstrip()
        over = "" if move.fits else ", over the budget"
        yield Text(f"{move.slot} on {where}: {makespan}, at a peak of {memory}{over}")
    if not explanation.moves_complete:
        none = "none of the single moves that were timed shortens it; not all were timed"
        yield Text("not all moves were timed", style="dim") if explanation.moves else Text(none)
    elif not explanation.moves:
        yield Text("no single move of one operation in the order of its device shortens it")


def why_lines(why: Why, unit: str = "") -> Iterator[Text]:
    """Yield why an operation starts when it does; `unit` is the label of times."""
    label = f" {unit}" if unit else ""
    yield Text(f"{why.slot} on {why.place} runs from {number(why.start)} to {number(why.end)}{label}", style="bold")
    for entry in why.inputs:
        what = {"input": "input", "order": "comes before it", "wait": "wait edge"}[entry.what]
        held = "  <- held it back" if entry.is_tight else ""
        yield Text(f"  {entry.slot}  {what}, there at {number(entry.there)}{held}")
    if not why.inputs:
        yield Text("  waits for nothing")
    late = f"; it may have started at {number(why.allowed)}{label}" if why.start > why.allowed else ""
    critical = "it is critical: any delay makes the step longer"
    if why.slack:
        critical = f"it may end {number(why.slack)}{label} later without making the step longer"
    yield Text(f"  {critical}{late}")
    chain = [str(slot) for slot in why.chain]
    more = f" <- .. {len(chain) - MOST_CHAIN} more" if len(chain) > MOST_CHAIN else ""
    yield Text(f"  {' <- '.join(chain[:MOST_CHAIN])}{more} <- time 0")


DIGITS = 3  # behind the point, of times
MARK = "*"  # of costs that waiting may be part of


@group()
def timeline_view(timeline: Timeline, *, ascii_only: bool = False) -> Iterator[RenderableType]:
    """Return what was planned and what was measured as charts on one scale, each with its heading, and the costs."""
    outcomes = [outcome for _, outcome in timeline.outcomes]
    together = [outcome.schedule for outcome in outcomes]
    for title, outcome in timeline.outcomes:
        rows, legend = some_devices(outcome.problem.devices), outcome is outcomes[-1]
        makespan = f"{_rounded(outcome.schedule.makespan)} {timeline.problem.time_unit}".rstrip()
        yield Text(title, style="bold").append(f"  makespan {makespan}", style="not bold")
        yield Gantt(outcome, rows=rows, together=together, show_legend=legend, ascii_only=ascii_only)
        yield ""
    yield costs_table(timeline)
    yield from remarks(timeline)


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
