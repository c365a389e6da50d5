"""What a page knows of a schedule: orders, precedences, costs and memory as integers. Its times the page computes.

`schedule_data` is where one begins; its parts are `step_data` (gathers, reductions, side work), `queue_data` (messages)
and `plan_data` (orders, with the times of a late schedule). Names are those that the program of the page reads. A row
is the operations of one kind and stage, a unit the place in it; a sort is a row, in a pair with that of its backward.

Orders of many operations are packed for `page/graph.js`: differences as bytes of seven bits, compressed, as text.
Numbers come column by column, because equal neighbours compress best:

    for each device and lane: its length, the sorts of slots on it, the sort of each slot
    the microbatch of each slot (and of its backward, in a pair), less the one that its sort had last and one more;
        where they are cut into slices its place among the slices of all microbatches
    the wait edges: differences of the earlier and of the later operation
    where times are late: 1, and the start of each slot less the start of the one before it; else 0
    where operations have lengths of their own: 1, and each less the one before it; else 0
    with lengths, when the message of each was there (-1: it waited for none), in the same way
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, pairwise
from typing import Any

from pipesched.core.arrays import np
from pipesched.core.reasons import Idle
from pipesched.core.timing import UNTIMED
from pipesched.documents.problem import order_document, problem_document
from pipesched.documents.schedule import solver_document
from pipesched.errors import Deadlock, NotApplicable
from pipesched.pipeline.bounds.bounds import lower_bound
from pipesched.pipeline.plan.lowering import PrecedenceRow, Sent, precedence_rows
from pipesched.pipeline.plan.metrics import SIDE, WHOLE_GRADIENTS, WHOLE_WEIGHTS
from pipesched.pipeline.plan.plan import NOTHING_BEFORE, SIDE_KINDS, Plan
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan, timed_schedule
from pipesched.pipeline.plan.step import GRADIENTS, WEIGHTS
from pipesched.pipeline.problem.kinds import ALL_KINDS, KINDS
from pipesched.pipeline.problem.model import received
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import whole
from pipesched.render.palette import HUES, Rgb, colour_of, place_of
from pipesched.render.scene import OF_STAGES, chunk_of, chunk_of_stage
from pipesched.results.outcome import Outcome, of_schedule

Arc = tuple[int, int, int, int, int]  # ranges before and behind, of which one may hold one operation; latency
START, END = 0, 1  # what of operations begins or ends a stay: their first start, or their last end


def step_data(schedule: Schedule, palette: Palette) -> dict[str, Any]:
    """Return what the page reads of the step of a schedule; colours are added to `palette`.

    Of each lane's program that is the operation, the slot behind which it is issued, and whether the rule names that.
    """
    index, step = schedule.plan.index, _StepData(schedule)
    kinds = [rows.kind for rows in index.scoped]  # gathers, reductions, optimizers, side work
    return {
        "beside": [step.operation(number, schedule, palette) for number in range(index.passes, index.first_message)],
        "signs": [*index.letters, *kinds],
        "names": [ALL_KINDS[kind].name for kind in kinds],
        "arcs": [*step.arcs()],
        "programs": [
            [(number, after, int(step.is_by_rule(number, after))) for number, after in program]
            for program in schedule.plan.network
        ],
        "stays": [*step.stays()],
        "sharded": schedule.problem.sharding.divides(WEIGHTS),
    }


class _StepData:
    """What `step_data` lists; of the plan it knows the place of each slot in its order, and where it runs."""

    def __init__(self, schedule: Schedule) -> None:
        problem, plan, self.edges = schedule.problem, schedule.plan, schedule.graph.edges
        self.problem, self.plan, self.index = problem, plan, plan.index
        self.there, self.chunks = problem.settled_placement.devices, chunk_of_stage(schedule)
        self.place = {number: place for order in plan.orders for place, number in enumerate(order)}
        self.place |= {backward: self.place[forward] for forward, backward in plan.pairs.items()}
        self.runs_on = {number: device for device, order in enumerate(plan.orders) for number in order}

    def operation(self, number: int, schedule: Schedule, palette: Palette) -> list[Any]:
        """Return text, kind, stage, microbatch (-1: none), duration, device and tone; of RESHARD its UNSHARD too."""
        op = self.index.op(number)
        microbatch = -1 if op.kind in OF_STAGES else op.microbatch
        shown = "UNSHARD" if op.kind == "RESHARD" else op.kind  # which takes no time
        look = shown, chunk_of(op, self.chunks), max(self.chunks) + 1
        hues = [colour_of(None if op.kind in OF_STAGES else hue, *look) for hue in range(len(HUES))]
        kind = [*self.index.kinds].index(op.kind)
        device = self.runs_on.get(number, 0) if op.kind in SIDE_KINDS else self.there[op.stage]
        row = [str(op), kind, op.stage, microbatch, schedule.graph.durations[number], device]
        gather = [self.index.number(op._replace(kind="UNSHARD"))] if op.kind == "RESHARD" else []
        return [*row, _tone((colour_of(None, *look), *hues), palette), *gather]

    def arcs(self) -> Iterator[Arc]:
        """Yield what waits for what: for gradients, for gathered weights, and by the programs of lanes."""
        reduces = "REDUCE_GRAD" in self.index.kinds
        of_gradients = ("REDUCE_GRAD", "REDUCE_TIED") if reduces else ("REDUCE_TIED", *"BW")
        clipped = [self.index.of_kind(kind) for kind in of_gradients if self.problem.clip and kind in self.index.kinds]
        for stage in range(self.index.stages):
            for one in self.index.row("REDUCE_GRAD", stage):
                yield from (_arc(row, one) for row in self._needed(one))
            done = [self.index.row("REDUCE_GRAD", stage)] if reduces else self._backwards(stage)
            for one in self.index.row("OPTIMIZER", stage):
                tied = self.index.row("REDUCE_TIED", stage) if "REDUCE_TIED" in self.index.kinds else range(0)
                yield from (_arc(row, one) for row in (*clipped, *done, tied))
            for one in self.index.row("REDUCE_TIED", stage) if stage in (0, self.index.stages - 1) else ():
                yield from self._tied(one)
        yield from self._of_side()
        for device, program in enumerate(self.plan.network):
            yield from self._resident(device)
            for number, after in program:
                if after != NOTHING_BEFORE and not self.is_by_rule(number, after):
                    yield _arc(range(after, after + 1), number)

    def _backwards(self, stage: int) -> list[range]:
        """Return the rows of backwards that make the gradients of a stage's weights."""
        return [self.index.row(kind, stage) for kind in "BW" if kind in self.index.letters]

    def _needed(self, reduction: int) -> list[range]:
        """Return the backwards whose gradients a reduction sums: of its microbatch, or of all."""
        op = self.index.op(reduction)
        part = slice(None) if op.number is None else self.index.in_units(range(op.number, op.number + 1))
        return [row[part] for row in self._backwards(op.stage)]

    def _tied(self, tied: int) -> Iterator[Arc]:
        """Yield what both ends of REDUCE_TIED wait for: gradients of both stages, and what comes before the other."""
        for stage in (0, self.index.stages - 1):
            reductions = self.index.row("REDUCE_GRAD", stage)
            yield from (_arc(row, tied) for row in ([reductions] if reductions else self._backwards(stage)))
        for lane in self.plan.network_lanes:
            for before, number in pairwise(lane):
                if self.index.kind_of(number) == "REDUCE_TIED" and number != tied:
                    yield _arc(range(before, before + 1), tied)

    def _of_side(self) -> Iterator[Arc]:
        """Yield what side work and the passes of its stage need of each other."""
        for item, side in enumerate(self.problem.side):
            lag = self.problem.step_ticks.side_p2p[item]
            for one in (*self.index.row("E", item), *self.index.row("G", item)):
                op, far = self.index.op(one), lag * (self.runs_on.get(one) != self.there[side.into])
                part = self.index.in_units(range(op.microbatch, op.microbatch + 1))
                if op.kind == "E":
                    first = self.index.row("F", side.into)[part][:1]
                    yield (one, one + 1, first.start, first.stop, far)
                else:
                    gradients = (self.index.row(kind, side.into)[part] for kind in self.index.gradients)
                    yield from (_arc(row, one, far) for row in gradients)
                    yield _arc(self.index.row("E", item)[op.microbatch : op.microbatch + 1], one)

    def _resident(self, device: int) -> Iterator[Arc]:
        """Yield the wait of passes for the gather of their weights: of each gather, those up to the stage's next."""
        program = self.plan.network[device]
        gathers = [(number, after) for number, after in program if self.index.kind_of(number) == "UNSHARD"]
        if self.problem.sharding.gathers_each:  # what the slot behind a gather waits for, that waits for too
            edges = self.edges.where(np.isin(self.edges.after, [number for number, _ in gathers]))
            yield from ((before, before + 1, number, number + 1, lag) for before, number, lag in edges)
        for number, after in gathers:
            op = self.index.op(number)
            if not self.problem.sharding.divides(WEIGHTS):
                row = self.index.row("F", op.stage)
                yield (number, number + 1, row.start, row.stop, 0)
                continue
            later = (self.place[slot] for one, slot in gathers
                     if slot != NOTHING_BEFORE and self.index.op(one)[:1] == op[:1] and one > number)  # fmt: skip
            begin = -1 if after == NOTHING_BEFORE else self.place[after]
            for one in self.plan.orders[device][begin + 1 : min(later, default=len(self.place)) + 1]:
                parts = (one, self.plan.pairs[one]) if one in self.plan.pairs else (one,)
                if any(part < self.index.passes and self.index.stage_of(part) == op.stage for part in parts):
                    yield (number, number + 1, one, one + 1, 0)

    def is_by_rule(self, number: int, after: int) -> bool:
        """Return whether a lane's operation is a reduction right behind the last backward that it needs."""
        if self.index.kind_of(number) != "REDUCE_GRAD":
            return False
        places = [self.place[one] for row in self._needed(number) for one in row if one in self.place]
        return after != NOTHING_BEFORE and max(places, default=-1) == self.place[after]

    def stays(self) -> Iterator[tuple[Any, ...]]:
        """Yield what a device holds for a while: device, class, grains, what it begins with and what it ends with."""
        grains, sharding = self.problem.step_grains, self.problem.sharding
        if sharding.divides(WEIGHTS):
            for program in self.plan.network:
                for number, after in program:
                    op = self.index.op(number)
                    if op.kind == "RESHARD":
                        gather = self.index.number(op._replace(kind="UNSHARD"))
                        ends = [gather, *([] if after == NOTHING_BEFORE else [after])]
                        size = grains.weights[op.stage]
                        yield self.there[op.stage], WHOLE_WEIGHTS, size, START, [gather], END, ends
        if sharding.divides(GRADIENTS):
            for stage in range(self.index.stages):
                for one in self.index.row("REDUCE_GRAD", stage):
                    first = [number for row in self._needed(one) for number in row if number in self.place]
                    yield self.there[stage], WHOLE_GRADIENTS, grains.gradients[stage], START, first, END, [one]
        yield from self._side_stays()

    def _side_stays(self) -> Iterator[tuple[Any, ...]]:
        grains = self.problem.step_grains
        for item, side in enumerate(self.problem.side):
            into, output = self.there[side.into], grains.side_output[item]
            backwards = self.index.row("G", item) if side.backward is not None else ()
            for microbatch, forward in enumerate(self.index.row("E", item)):
                part = self.index.in_units(range(microbatch, microbatch + 1))
                last = backwards[microbatch] if backwards else forward
                device = self.runs_on.get(forward, into)
                yield device, SIDE, grains.side_activation[item], START, [forward], END, [last]
                used = self.index.row("F", side.into)[part][0]
                yield into, SIDE, output, END, [forward], START, [used]
                if backwards:
                    rows = [self.index.row(kind, side.into)[part] for kind in self.index.gradients]
                    needed = [one for row in rows for one in row if one in self.place]
                    yield into, SIDE, output, END, needed, START, [last]


def _arc(before: range, after: int, lag: int = 0) -> Arc:
    return before.start, before.stop, after, after + 1, lag


Cell = int | list[int]  # a value of all units, or the number of a column
Columns = dict[tuple[int, ...], int]  # each once, with its number


def _cell(values: Sequence[int], columns: Columns) -> Cell:
    """Return the value where all are equal, else in a list the number of their column, which is added if it is new."""
    return values[0] if len({*values}) == 1 else [columns.setdefault(tuple(values), len(columns))]


def _arcs(problem: Problem, index: OpIndex, columns: Columns) -> Iterator[tuple[int | list[int], ...]]:
    """Yield the precedences between rows: two rows, latency, boundary; the first unit and the one behind the last.

    The operation before may be of another slice or round of its microbatch: the last number says how many further on.
    """

    def rows_of(row: PrecedenceRow) -> tuple[int, int, int, int]:
        before, after = row.before.start, row.after.start
        return index.row_of(before), index.row_of(after), row.boundary, before % index.units - after % index.units

    for (before, after, boundary, further), rows in groupby(precedence_rows(problem, index), rows_of):
        lags = {number % index.units: row.lag for row in rows for number in row.after}
        first, behind = min(lags), max(lags) + 1
        lag = _cell([lags.get(unit, 0) for unit in range(index.units)], columns)
        if len({*lags.values()}) == 1:
            lag = lags[first]
        yield before, after, lag, boundary, first, behind, further


MOST_PLAIN = 5_000  # operations: of more, orders are packed
MOST_EXACT = 2**53  # ticks: whole numbers that JavaScript holds exactly
STRIPES_OF_MARKS = {"=": "line", "~": "rise", "^": "fall", ">": "dots", "<": "dots"}
STRIPES = {letter: STRIPES_OF_MARKS[kind.mark] for letter, kind in KINDS.items() if kind.mark in STRIPES_OF_MARKS}
IDLE_LOOKS = {  # a colour, and its stripes
    Idle.WARM_UP: ("120,144,156", "dots"),
    Idle.WAIT: ("255,193,7", "rise"),
    Idle.TRANSFER: ("0,172,193", "fall"),
    Idle.QUEUE: ("96,125,139", "rise"),
    Idle.ORDER: ("171,71,188", "cross"),
    Idle.MEMORY: ("239,83,80", "rise"),
    Idle.DRAIN: ("141,110,99", "fall"),
    Idle.LATE: ("66,165,245", "cross"),
    Idle.MESSAGE: ("0,121,107", "cross"),
    Idle.RUNTIME: ("66,165,245", "rise"),
}
MOST_SHADES = 16  # of the slices of a microbatch
ALONE = 0  # instead of the row of a backward: the slot is no pair
Palette = dict[tuple[int, ...], int]  # a sort of operations: its colour by kind and those by hue, 0xrrggbb; its number


def schedule_data(outcome: Outcome, name: str, palette: Palette | None = None) -> dict[str, Any]:
    """Return a schedule as the page reads it; `name` is its title. Its colours are added to `palette`.

    A row of operations is those of one kind and stage, in order of microbatches and slices; rows stand kind by kind.

    Raises NotApplicable where its times have too many digits for the page.
    """
    schedule, problem, index = outcome.schedule, outcome.problem, outcome.schedule.plan.index
    durations, lags = schedule.graph.durations, max(problem.largest_hops, default=0)
    most = max(schedule.end_ticks, default=0) + sum(durations) + lags * len(durations)  # whatever the order
    if most * problem.devices >= MOST_EXACT:
        raise NotApplicable("html: the times of this schedule have more digits than a browser adds exactly")
    placement, model, columns = problem.settled_placement, problem.model, Columns()
    return {
        "name": name,
        "algorithm": outcome.algorithm,
        "status": outcome.status,
        "problem": problem_document(problem),
        "fed": order_document(outcome) or None,
        "per": problem.ticks.per_unit,
        "grain": problem.grains.per_unit,
        "letters": index.letters,
        "kinds": [KINDS[letter].name for letter in index.letters],
        "useful": [KINDS[letter].in_ideal for letter in index.letters],
        "rows": [  # what the operations of each row last, take at their start and give back at their end
            tuple(_cell(row, columns) for row in rows)
            for letter in index.letters
            for tables in [(model.ticks[KINDS[letter].cost], *model.changes(letter))]
            for rows in zip(*(table.tolist() for table in tables), strict=True)
        ],
        "given": [  # each row behind which a forward already gives something back, and how much
            (index.row_of(index.row(letter, stage).start), _cell(sizes, columns))
            for letter in index.letters
            if (given := KINDS[letter].forward_gives) is not None
            for stage, sizes in enumerate(model.column(given).tolist())
        ],
        "arcs": [*_arcs(problem, index, columns)],
        "overlap": None if model.overlap is None else [_cell(row, columns) for row in model.overlap.tolist()],
        "columns": [*columns],  # of all that stands above
        "slices": index.slices,
        **({} if problem.speed is None else {"names": [*map(problem.device_name, range(problem.devices))]}),
        "tones": _tones(problem, index, {} if palette is None else palette),
        "p2p": problem.least_hops,
        "placement": placement.devices,
        "second": [one for one in range(problem.microbatches) if placement.is_second(one, problem.microbatches)],
        "static": problem.static_grains,
        "capacity": problem.capacity_grains,
        "stored": schedule.makespan_ticks,
        "bound": _bounds(outcome),
        "solver": None if outcome.report is None else solver_document(outcome.report),
        **({"step": step_data(schedule, {} if palette is None else palette)} if problem.has_step else {}),
        **({"queue": queue_data(schedule, {} if palette is None else palette)} if index.sent else {}),
        "plan": plan_data(schedule),
    }


def queue_data(schedule: Schedule, palette: Palette) -> dict[str, Any]:
    """Return the queue of messages, and as numbers: what each is, how long it takes, and the program of each device."""
    problem, plan, times, kinds = schedule.problem, schedule.plan, schedule.times, [f"SEND_{one}" for one in "FBEG"]
    sent = Sent(problem, plan)
    there = np.flatnonzero(sent.is_run)
    tasks = there + plan.index.first_message
    ops = [*map(plan.index.op, tasks.tolist())]
    rows = [(kinds.index(op.kind), op.stage, op.microbatch * plan.index.slices + op.slice) for op in ops]
    numbers = [len(ops)]
    columns = sent.source[there], sent.target[there], times.end[tasks] - times.start[tasks]
    for values in (*zip(*rows, strict=True), *columns):
        numbers += _differences([*map(int, values)])
    for program in plan.messages:
        ends = 2 * np.searchsorted(tasks, program.number) + program.sends
        numbers += len(ends), *_differences(ends.tolist()), *_differences(program.after.tolist())
    return {
        "queue": problem.messages and problem.messages.queue,
        "names": [ALL_KINDS[kind].name for kind in kinds],
        "tones": [_tone((colour_of(hue, kind) for hue in (None, *range(len(HUES)))), palette) for kind in kinds],
        "sizes": whole(received(problem.memory, problem.units), problem.grains.per_unit) or None,
        "numbers": numbers if len(plan) <= MOST_PLAIN else _text(numbers),
    }


def plan_data(schedule: Schedule) -> dict[str, Any]:
    """Return the orders of devices and lanes and the wait edges: as texts, or packed where there are many.

    With them starts that are later than they could be, and lengths that are the operations' own, position by position,
    then message by message.
    """
    plan, starts, ends = schedule.plan, schedule.start_ticks, schedule.end_ticks
    numbers = [*chain(*plan.machines), *sorted({*chain(*(program.number.tolist() for program in plan.messages))})]
    try:
        is_late = schedule.own_lengths or [*schedule_plan(schedule.problem, plan).start_ticks] != [*starts]
    except Deadlock:  # operations of no length that wait for each other: their times stand
        is_late = True
    late = [starts[number] for number in numbers] if is_late else None
    lengths = arrived = None
    if schedule.own_lengths:
        lengths = [ends[number] - starts[number] for number in numbers]
        arrived = [schedule.arrival_ticks[number] if schedule.arrival_ticks else UNTIMED for number in numbers]
    if len(plan) > MOST_PLAIN and not plan.network:
        return {"packed": packed(plan, late, lengths, arrived)}
    op = plan.index.op
    return {
        "orders": [[str(slot) for slot in plan.slots(device)] for device in range(len(plan.orders))],
        "lanes": [[str(op(number)) for number in lane] for lane in (*chain(*plan.lanes), *plan.network_lanes)],
        "waits": [[str(op(before)), str(op(after))] for before, after in plan.waits],
        "starts": late,
        "lengths": lengths,
        "arrived": arrived,
    }


def _tones(problem: Problem, index: OpIndex, palette: Palette) -> list[list[int]]:
    """Return the number in `palette` of the colours of each row: a list for each direction of the microbatches."""
    placement, count = problem.settled_placement, problem.microbatches
    firsts = {placement.is_second(part[0], count): part[0] for part in placement.directions(count)}  # of each way
    most = min(index.slices, MOST_SHADES)
    shades = [place_of(shade, most) for shade in range(most)]

    def tone(letter: str, stage: int, first: int) -> int:
        chunks = placement.stages_on(placement.device(stage, first, index.microbatches))
        look = letter, chunks.index(stage), len(chunks)
        colours = (colour_of(hue, *look, place) for hue in range(len(HUES)) for place in shades)
        return _tone((colour_of(None, *look), *colours), palette)

    return [
        [tone(letter, stage, firsts.get(second, 0)) for letter in index.letters for stage in range(index.stages)]
        for second in (False, True)[: len(placement.ways)]
    ]


def _tone(colours: Iterable[Rgb], palette: Palette) -> int:
    return palette.setdefault(tuple(red << 16 | green << 8 | blue for red, green, blue in colours), len(palette))


def _bounds(outcome: Outcome) -> dict[str, Any]:
    """Return bounds in ticks with what they are about: the one that is shown, and those of other orders.

    The latter are of its cut and placement: what is known in `ticks`, its `own` of any order of the same kind, and one
    that is `free` of the budget.
    """
    schedule = outcome.schedule
    problem = replace(schedule.problem, memory=replace(schedule.problem.memory, budget=None))
    free = timed_schedule(problem, schedule.plan, schedule.times, schedule.graph, own_lengths=schedule.own_lengths)
    return {
        "shown": outcome.claim.bound.ticks,
        "of_shown": outcome.claim.covers,
        "ticks": outcome.bound.ticks,
        "covers": outcome.covers,
        "own": lower_bound(schedule).ticks,
        "free": lower_bound(free).ticks,
        "of_free": of_schedule(free),
    }


def packed(plan: Plan, *columns: Sequence[int] | None) -> str:
    """Return a plan as base64 text: orders, pairs, lanes, wait edges; then starts, lengths and arrivals, if given."""
    numbers: list[int] = [len(plan.lanes)]
    units: list[int] = []
    for order in plan.machines:
        sorts: dict[tuple[int, int], int] = {}
        last: dict[int, int] = {}
        column = []
        for number in order:
            row, backward = plan.index.row_of(number), plan.pairs.get(number)
            other = ALONE if backward is None else 1 + plan.index.row_of(backward)
            column.append(sorts.setdefault((row, other), len(sorts)))
            for part in (number,) if backward is None else (number, backward):
                at, unit = divmod(part, plan.index.units)
                units.append(signed(unit - last.get(at, -1) - 1))
                last[at] = unit
        numbers += [len(order), len(sorts), *(entry for sort in sorts for entry in sort), *column]
    numbers += units
    numbers.append(len(plan.waits))
    for column_of_waits in zip(*plan.waits, strict=True):
        numbers += _differences(column_of_waits)
    for times in columns:
        numbers.append(int(times is not None))
        numbers += _differences(times or ())
    return _text(numbers)


def _text(numbers: Iterable[int]) -> str:
    found = bytearray()
    for number in numbers:  # seven bits at a time, the lowest first; the eighth bit says that more follow
        rest = number
        while rest > 127:
            found.append(rest & 127 | 128)
            rest >>= 7
        found.append(rest)
    return base64.b64encode(gzip.compress(found, 9, mtime=0)).decode()  # the same in every run


def signed(number: int) -> int:
    """Return a number without a sign: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4."""
    return 2 * number if number >= 0 else -2 * number - 1


def _differences(values: Sequence[int]) -> Iterable[int]:
    return (signed(value - before) for before, value in zip((0, *values), values, strict=False))
