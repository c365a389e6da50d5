"""A hardware schedule: its chart, `UnitChart`, and the texts around it: heading, summary, rules and reasons.

`hardware_view` puts all together; `why_parts` is about one operation, `_Words` calls operations as the chart does.

The chart has a row for each unit, cycles to the right, and the registers in use below. With colours an operation is
filled with the hue of its type (in a loop, of its iteration), lighter every other time. Without them a unit takes a
line of types, a line of names and, in a loop, a line of iterations. Where an expression does not fit, its label is a
number, which the end of the legend explains. Marked operations are underlined, or without colours have a line of `*`
below their types.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult, group
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from pipesched.core.arrays import ceil_div
from pipesched.core.reasons import Idle, classes
from pipesched.hls.explanation import HardwareExplanation, OperationReasons, Unit, UnitGap
from pipesched.hls.graph import Operation
from pipesched.hls.modulo import Intervals
from pipesched.hls.outcome import COMPARED, HardwareOutcome, RuleTable
from pipesched.hls.schedule import HardwareSchedule
from pipesched.render.gantt import IDLE, NEWLINE, SHARED, WIDE, Line, LineFrame, Look, Widely, axis, level_marks, wrap
from pipesched.render.grid import fitting, folded, grid, shortened, uncut, width_of
from pipesched.render.palette import DIM, HUES, IDLE_MARKS, fill
from pipesched.render.scene import Row, Run, Window, counted, describe, fit
from pipesched.render.summary import GOOD

MOST_ITERATIONS = 4  # of a loop
MARK, MARKED = "*", Style(underline=True, bold=True)
MOST_IDLE = 16  # units of a class, from which those without work are left out
LONGEST = 36  # letters of an expression, of which a longer one shows the beginning and the end
MOST = 12  # operations that are explained


class Numbers:
    """What the labels of the first operations without a name stand for, as many on a line as fit; how many more are."""

    def __init__(self, operations: Sequence[Operation], *, ascii_only: bool) -> None:
        self.operations, self.gap = operations, " ... " if ascii_only else " … "

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, items = options.max_width, list[Line]()
        for operation in self.operations[:MOST]:
            label = f"{operation.name} = "
            most = max(min(LONGEST, width - len(label)), len(self.gap))
            items.append([Segment(label + shortened(operation.text, most, self.gap))])
        if len(self.operations) > MOST:
            more = f"and {len(self.operations) - MOST} more"
            full = f"{more} without a name"
            items.append([Segment(full if len(full) <= width else more, DIM)])
        yield from wrap(items, width)


class UnitChart(Widely):
    """A hardware schedule as a chart; a loop is drawn until its iterations overlap as they do for ever."""

    _narrowest = 24

    def __init__(
        self,
        schedule: HardwareSchedule,
        *,
        ascii_only: bool = False,
        marked: Iterable[int] = (),
        explained_too: Iterable[int] = (),
    ) -> None:
        """Mark the operations `marked`, a critical path; explain the labels of those of `explained_too` in any case."""
        self.schedule, self.ascii_only = schedule, ascii_only
        self.marked, self.explained_too = set(marked), set(explained_too)
        self.period = schedule.interval or 0
        self.iterations = min(1 + ceil_div(schedule.latency, self.period), MOST_ITERATIONS) if self.period else 1
        self.end = (self.iterations - 1) * self.period + schedule.latency
        self.types = sorted({operation.type for operation in schedule.graph.operations})
        self.names: list[str] = []
        self.numbered: set[int] = set()  # operations without a name whose expression did not fit
        self.positions: dict[int, int] = {}  # of each operation, its position in its row

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ascii_only = self.ascii_only or options.ascii_only
        names = (f"{unit.name} {unit.count - 1}" for unit in self.schedule.units)
        gutter = max(len("regs"), *map(len, names)) + 1
        gutter = min(gutter, options.max_width // 4) if options.max_width < WIDE else min(gutter, 20)
        tail = len(" idle")
        scale = fit(Window(0, self.end), 1, max(options.max_width - gutter - tail, 1))
        colour = not (ascii_only or console.no_color or console.color_system is None)
        layout = LineFrame(gutter, [scale], tail, colour, ascii_only)
        self.set_names(scale.columns // self.end)
        yield from axis(layout, 1)
        look = Look()
        for name, row, busy in self.rows():
            runs = row.runs(scale)
            look.add(row, runs, scale)
            head = Segment(name[: layout.gutter - 1].ljust(layout.gutter))
            share = Segment(f"{1 - busy / self.end:.0%}".rjust(layout.tail), DIM)
            for number, cells in enumerate(self.lines(runs, layout)):
                yield from [head, *cells, share] if not number else [Segment(" " * layout.gutter), *cells]
                yield NEWLINE
        yield from self.registers(layout)
        yield from wrap(self.legend(look, layout), options.max_width)
        numbered = [self.schedule.graph.operations[task] for task in sorted(self.numbered)]
        yield Numbers(numbered, ascii_only=layout.ascii_only)

    def set_names(self, width: int) -> None:
        """Take names that fit into so many columns, where they do; which ones did not is known after `lines`."""
        self.names = short_names(self.schedule.graph.operations, width)
        self.numbered = set(self.explained_too)

    def rows(self) -> Iterator[tuple[str, Row, int]]:
        """Yield for each unit its name, its operations in order, and the cycles for which they occupy it."""
        schedule = self.schedule
        starts, instances = schedule.unrolled(self.iterations)
        held: dict[tuple[int, int], list[int]] = {}
        for task in sorted(range(len(starts)), key=starts.__getitem__):
            held.setdefault((schedule.classes[task % len(schedule.graph)], instances[task]), []).append(task)
        for number, unit in enumerate(schedule.units):
            for instance in range(unit.count):
                order = held.get((number, instance), [])
                if not order and unit.count > MOST_IDLE:
                    continue
                self.positions |= {task: position for position, task in enumerate(order)}
                begin = [starts[task] for task in order]
                end = [start + unit.interval for start in begin]
                yield f"{unit.name} {instance}", Row(order, begin, end, self._type), len(order) * unit.interval

    def lines(self, runs: Sequence[Run], layout: LineFrame) -> list[Line]:
        """Return the lines of a unit, for its runs; `rows` says first where operations stand in their rows."""
        if layout.colour:
            return [[self._filled(run) for run in runs]]
        idle, size = IDLE[layout.ascii_only], len(self.schedule.graph)
        kinds, marks, labels, turns = "", "", "", ""
        for run in runs:
            if run.slot is None:
                kinds += idle * run.width
            else:
                fill_with = "-" if self.positions[run.slot] % 2 else "="
                kinds += self._type(run.slot)[: run.width].ljust(run.width, fill_with)
            marks += (MARK if self._is_marked(run) else " ") * run.width
            labels += self._label(run).ljust(run.width)
            turns += ("" if run.slot is None or run.shared else str(run.slot // size)).ljust(run.width)
        below = [marks, labels, *[turns] * bool(self.period)]
        return [[Segment(kinds)], *([Segment(text.rstrip())] for text in below if text.strip())]

    def _filled(self, run: Run) -> Segment:
        if run.slot is None:
            return Segment(IDLE[False] * run.width, DIM)
        iteration, task = divmod(run.slot, len(self.schedule.graph))
        hue = iteration if self.period else self.types.index(self._type(task))
        style = fill(hue, "F", 0 if run.shared else self.positions[run.slot] % 2, 2)
        return Segment(self._label(run).ljust(run.width), style + MARKED if self._is_marked(run) else style)

    def _is_marked(self, run: Run) -> bool:
        """Return whether a run shows a marked operation, as far as it is known of columns that several share."""
        if run.slot is None or not self.marked:
            return False
        return not self.marked.isdisjoint(task % len(self.schedule.graph) for task in (run.slot, *run.slots))

    def _type(self, slot: int) -> str:
        return self.schedule.graph.operations[slot % len(self.schedule.graph)].type

    def _label(self, run: Run) -> str:
        """Return the operation's text where it fits, else its name, or the end of it."""
        if run.slot is None or run.shared:
            return ""
        task = run.slot % len(self.schedule.graph)
        text = self.schedule.graph.operations[task].text
        if text and len(text) < run.width:
            return text
        if text:
            self.numbered.add(task)
        return self.names[task][-run.width :]

    def registers(self, layout: LineFrame) -> Iterator[Segment]:
        """Yield the strip of registers in use at the boundary with which a cycle begins."""
        alive = self.schedule.alive
        steps = [(cycle, alive[cycle % len(alive)]) for cycle in range(self.end)]
        marks = level_marks(steps, self.schedule.registers, layout)
        peak = Segment(str(self.schedule.registers).rjust(layout.tail), DIM)
        yield from (Segment("regs".ljust(layout.gutter), DIM), *marks, peak, NEWLINE)

    def legend(self, look: Look, layout: LineFrame) -> Iterator[Line]:
        if layout.colour and self.period:
            swatches = [Segment(f" {number} ", fill(number, "F", 0, 2)) for number in range(self.iterations)]
            yield [Segment("iteration "), *swatches]
        elif layout.colour:
            for hue, kind in enumerate(self.types):
                yield [Segment(f" {kind} ", fill(hue % len(HUES), "F", 0, 2))]
        elif look.apart:
            yield [Segment("type, below: name" + (", then iteration" if self.period else ""))]
        if self.marked:
            yield [Segment(" op ", MARKED) if layout.colour else Segment(MARK), Segment(" critical path")]
        yield [Segment(IDLE[layout.ascii_only], DIM), Segment(" idle")]
        if look.shared:
            yield [Segment(SHARED.replace("kind", "type"))]
        when = " in the steady state" if self.period else ""
        most = counted(self.schedule.registers, "register")
        yield [Segment(f"regs: {'9' if layout.ascii_only else '█'} = {most} alive{when}")]
        (_, length), columns = layout.scales[0]
        if not columns % length:
            yield [Segment(f"{columns // length} columns = 1 cycle" if columns > length else "1 column = 1 cycle", DIM)]
        else:
            yield [Segment(describe(layout.scales[0], 1, "cycles"), DIM)]
        if look.hidden:
            yield [Segment(f"({look.hidden} operations too short to show)", DIM)]


def short_names(operations: Sequence[Operation], width: int) -> list[str]:
    """Return the names; if not all fit with a blank behind, without the type with which they begin: 16 for MUL_16."""
    names = [operation.name for operation in operations]
    if all(len(name) < width for name in names):
        return names
    return [name.removeprefix(op.type).lstrip("_") or name for name, op in zip(names, operations, strict=True)]


STOPS = {"time": "the time limit", "interrupt": "an interrupt"}


def hardware_heading(outcome: HardwareOutcome) -> Text:
    """Return the heading: the name of the graph, its operations by type, and the units."""
    graph, units = outcome.schedule.graph, outcome.schedule.units
    types = Counter(operation.type for operation in graph.operations)
    counts = ", ".join(f"{count} {kind}" for kind, count in types.most_common())
    on = ", ".join(f"{unit.count} {unit.name}" for unit in units)
    return Text(graph.name, style="bold").append(f"  operations: {counts}; units: {on}", style="not bold")


def hardware_summary(outcome: HardwareOutcome, bounds: Intervals | None = None) -> Table:
    """Return a table of metrics, their values and where they come from; `bounds` are those of a loop."""
    table = grid(uncut(), folded(justify="right"), folded(style="dim"), header=False)
    schedule = outcome.schedule
    what, asked = "latency", ""
    if bounds is None:
        table.add_row("latency", Text(f"{schedule.latency}", style="bold"), f"cycles; {outcome.method}")
    else:
        what, asked = "interval", f"; units ask for {bounds.resources}, recurrences for {bounds.recurrences}"
        table.add_row("initiation interval", Text(f"{schedule.interval}", style="bold"), outcome.method)
    table.add_row("lower bound", f"{outcome.bound}", outcome.proof + asked)
    if outcome.status == "optimal":
        table.add_row("gap", Text("optimal", style=GOOD), f"{what} = lower bound")
    else:
        stop = f"; stopped by {STOPS[outcome.stopped_by]}" if outcome.stopped_by else ""
        table.add_row("gap", f"{outcome.gap:.2%}", f"({what} - lower bound) / lower bound{stop}")
    if bounds is not None:
        table.add_row("latency", f"{schedule.latency}", "cycles of one iteration")
    table.add_row("registers", f"{schedule.registers}", "most values alive at a cycle boundary")
    pipelined = " (pipelined: one a cycle)"
    cycles = (f"{unit.name} {unit.latency}{pipelined * (unit.interval < unit.latency)}" for unit in schedule.units)
    table.add_row("cycles", "", ", ".join(cycles))
    return table


def rule_table(table: RuleTable, width: int) -> Group:
    """Return latency/registers of every rule, with the least latency marked, and below the optimum and remarks.

    Ties that do not fit side by side into `width` columns get a table of their own.
    """
    room, ties, grids = width - max(len(priority) for priority, _ in table.results), list(COMPARED), []
    texts = {rule: f"{cell.latency}/{cell.registers}" for rule, cell in table.results.items()}
    cells = {tie: [text for rule, text in texts.items() if rule[1] == tie] for tie in ties}
    while ties:
        count = max(fitting((width_of(tie.replace("-", "-\n"), cells[tie]) for tie in ties), room), 1)
        rows = grid(folded("priority"), *(folded(tie.replace("-", "-\n"), justify="right") for tie in ties[:count]))
        for priority in dict.fromkeys(priority for priority, _ in table.results):
            rules, least = [(priority, tie) for tie in ties[:count]], table.optimum.schedule.latency
            styles = [GOOD if table.results[rule].latency == least else "" for rule in rules]
            rows.add_row(priority, *(Text(texts[rule], style) for rule, style in zip(rules, styles, strict=True)))
        grids.append(rows)
        ties = ties[count:]
    found = table.optimum
    latency, registers = counted(found.schedule.latency, "cycle"), counted(found.schedule.registers, "register")
    stop = f", stopped by {STOPS[found.stopped_by]}" if found.stopped_by else ""
    best = f"Best found: {latency}; at least {found.bound} ({found.proof}){stop}."
    if found.status == "optimal":
        best = f"Optimum: {latency} ({registers} in this schedule). Proved by: {found.proof}."
    return Group(
        Text("latency/registers of list schedules, by priority and tie", style="dim"),
        *grids,
        "",
        Text("pairing: first what completes the operands of an operation whose others were issued", style="dim"),
        best,
        *table.remarks,
    )


MOST_GAPS = 10  # that are told
MOST_LETTERS = 20  # of an expression that stands for an operation without a name
MOST_CHAIN = 24  # operations of a path that are told, the first and the last of a longer one
IdleRow = tuple[str, dict[Idle, int], int]  # what idles, its idle time by class, and the time of which that is a share


@group()
def hardware_view(explanation: HardwareExplanation, *, ascii_only: bool = False) -> Iterator[RenderableType]:
    """Return the chart with the critical path marked, and below it what is known of idle time and latency."""
    words = _Words(explanation, ascii_only=ascii_only)
    marked = {"marked": explanation.tasks.critical_path, "explained_too": words.numbered}
    yield UnitChart(explanation.schedule, ascii_only=ascii_only, **marked)
    yield from ("", _lengths(explanation), "")
    used, units = _used(explanation), explanation.schedule.units
    large = {unit.name for unit in units if unit.count > MOST_IDLE}  # of which units without work have no row
    idle = zip(explanation.units, explanation.devices, strict=True)
    shown = ((unit, times) for unit, times in idle if unit in used or unit[0] not in large)
    rows = [(_unit(unit), times, explanation.latency) for unit, times in shown]
    whole = explanation.latency * len(explanation.units)  # of all units, shown or not
    yield idle_table([*rows, ("all", explanation.totals, whole)])
    for unit_class in units:
        count = sum(unit not in used for unit in explanation.units if unit[0] == unit_class.name)
        if count:
            verb = "runs" if count == 1 else "run"
            yield Text(f"{counted(count, 'unit')} of {unit_class.name} {verb} nothing", style="dim")
    yield from words.gaps()
    yield ""
    yield Text("latency of a unit class, the order on each unit as it is", style="dim")
    table, base = grid(uncut(), folded(), header=False), explanation.early_latency
    for row in sorted(explanation.sensitivity, key=lambda row: (-row.slower, -row.faster)):
        faster, slower = (
            f"still {base}" if latency == base else f"{latency} instead of {base}"
            for latency in (row.latency_faster, row.latency_slower)
        )
        first = "it takes one cycle, the least" if row.latency_faster is None else f"one cycle faster: {faster}"
        table.add_row(Text(row.unit_class), Text(f"{first}; one cycle slower: {slower}"))
    yield table
    yield ""
    yield words.chain("critical path", explanation.critical_path)


def why_parts(explanation: HardwareExplanation, op: str, *, ascii_only: bool = False) -> Iterator[RenderableType]:
    """Yield what is known about one operation, by its name or its expression. Raises ConfigError for an unknown one."""
    reasons = explanation.why(op)
    words = _Words(explanation, ascii_only=ascii_only)
    yield from words.why(reasons)
    if numbered := words.long([reasons.op, *(one.op for one in reasons.inputs), *reasons.chain]):
        yield Numbers(numbered, ascii_only=ascii_only)


def idle_table(rows: Sequence[IdleRow]) -> Table:
    """Return idle time by class: a row each, the last of them for the sum; no empty class."""
    used = [idle for idle in classes() if any(times[idle] for _, times, _ in rows)]
    titles = [*(IDLE_MARKS[idle].meaning for idle in used), "idle", "share"]
    table = grid(folded("idle time"), *(folded(title, justify="right") for title in titles))
    for place, (name, times, whole) in enumerate(rows, 1):
        total = sum(times.values())
        share = f"{total / whole:.0%}" if whole else ""
        numbers = map(str, (*(times[idle] for idle in used), total))
        table.add_row(Text(name), *numbers, share, style="bold" if place == len(rows) else "")
    return table


def _lengths(explanation: HardwareExplanation) -> Text:
    """Return the latency beside its bound, and how much of the idle time every schedule has."""
    latency, bound = counted(explanation.latency, "cycle"), counted(explanation.bound, "cycle")
    least = "which is optimal" if explanation.latency == explanation.bound else f"at least {bound}"
    text = Text(latency, style="bold")
    if not explanation.idle:
        return text.append(f", {least}; no unit ever idles.", style="not bold")
    idle = f"units idle {counted(explanation.idle, 'cycle')}: {explanation.unavoidable} unavoidable on these units"
    return text.append(f", {least}; {idle}, {explanation.avoidable} avoidable.", style="not bold")


def _used(explanation: HardwareExplanation) -> set[Unit]:
    return {unit for unit, order in zip(explanation.units, explanation.tasks.orders, strict=True) if order}


def _unit(unit: Unit) -> str:
    return f"{unit[0]} {unit[1]}"


def cut_path(names: Sequence[str]) -> list[str]:
    """Return the names of a path, of a long one the first and the last."""
    half = MOST_CHAIN // 2
    return [*names] if len(names) <= MOST_CHAIN else [*names[:half], *names[-half:]]


class _Words:
    """Sentences about the operations of a schedule, which they call as its chart does: by name or by expression."""

    def __init__(self, explanation: HardwareExplanation, *, ascii_only: bool) -> None:
        self.explanation = explanation
        self.arrow = " > " if ascii_only else " → "
        self.operations = {operation.name: operation for operation in explanation.schedule.graph.operations}
        self.numbers = {name: number for number, name in enumerate(self.operations)}
        used = _used(explanation)
        gaps = sorted((gap for gap in explanation.gaps if gap.unit in used), key=lambda gap: (-gap.length, gap.start))
        self.largest = gaps[:MOST_GAPS]  # of units that run something
        told = [name for gap in self.largest for name in (gap.culprit, gap.waiting) if name]
        told += cut_path(explanation.critical_path)
        self.numbered = {self.numbers[operation.name] for operation in self.long(told)}

    def long(self, names: Iterable[str]) -> list[Operation]:
        """Return the operations whose expressions are too long to stand for them, each once."""
        named = (self.operations[name] for name in dict.fromkeys(names))
        return [operation for operation in named if len(operation.text) > MOST_LETTERS]

    def label(self, name: str) -> str:
        """Return the expression of an operation that has no name if it is short, else its name."""
        return name if self.long([name]) else self.operations[name].text or name

    def gaps(self) -> Iterator[RenderableType]:
        if not self.largest:
            return
        table = grid(folded("largest gaps"), uncut("cycles"), folded("class"), folded("why"))
        for gap in self.largest:
            when, what = f"{gap.start}-{gap.end}", IDLE_MARKS[gap.idle].meaning
            table.add_row(Text(_unit(gap.unit)), when, what, Text(self.gap(gap)))
        yield from ("", table)

    def gap(self, gap: UnitGap) -> str:
        machine = self.explanation.tasks.machine[self.numbers[gap.culprit]]
        culprit, unit = self.label(gap.culprit), _unit(self.explanation.units[machine])
        if gap.idle is Idle.LATE:
            return f"{culprit} could start, and starts later"
        if gap.idle in {Idle.ORDER, Idle.MEMORY}:
            behind = f", behind {self.label(gap.waiting)}" if gap.waiting not in {None, gap.culprit} else ""
            return f"{culprit} could run; it comes later in the order{behind}"
        is_transfer = gap.idle is Idle.TRANSFER
        if gap.waiting is None:
            return f"done; the result of {culprit} is to come" if is_transfer else f"done; {unit} runs {culprit}"
        what = f"the result of {culprit}, which has left {unit}" if is_transfer else f"{culprit}, on {unit}"
        return f"{self.label(gap.waiting)} waits for {what}"

    def chain(self, title: str, names: Sequence[str]) -> Text:
        shown = cut_path(names)
        labels = [self.label(name) for name in shown]
        if len(shown) < len(names):
            labels.insert(MOST_CHAIN // 2, f".. {len(names) - len(shown)} more ..")
        return Text(f"{title}: ", style="dim").append(self.arrow.join(labels), style="not dim")

    def why(self, reasons: OperationReasons) -> Iterator[Text]:
        """Yield sentences about one operation: when it runs, its inputs, what it waited for, and its slack."""
        yield Text(self.label(reasons.op), style="bold").append(
            f"  on {_unit(reasons.unit)}, starts at {reasons.start}, result at {reasons.end}", style="not bold"
        )
        came = ", ".join(f"{self.label(one.op)} at {one.time}" for one in reasons.inputs)
        yield Text(f"inputs: {came or 'none but those of the program'}")
        if reasons.held_by is None:
            text = "it waits for nothing"
        elif reasons.by_input:
            text = f"it waits for the result of {self.label(reasons.held_by)}, there at {reasons.allowed}"
        else:
            unit = _unit(reasons.unit)
            text = f"it waits for {unit}, which runs {self.label(reasons.held_by)} until {reasons.allowed}"
        if reasons.start > reasons.allowed:
            text += f"; it could start at {reasons.allowed}, and starts {reasons.start - reasons.allowed} later"
        yield Text(text)
        costs = " later costs nothing" if reasons.slack else "; each cycle later is a cycle more of latency"
        yield Text(f"slack: {counted(reasons.slack, 'cycle')}{costs}")
        yield self.chain("chain from cycle 0", reasons.chain[::-1])
