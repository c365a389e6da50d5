"""The check of the step beside its passes, and of messages in queues: what a plan has of them, and its times.

`check` (check.py) makes `TimeTables` of a schedule, calls `incomplete_step`, `wrong_step`, and the same of messages:
each yields a sentence for each rule that is broken. What is said of a plan alone (`unfit_step`, `misplaced_step`,
`checked_programs`) stands first and needs no times: `schedule_plan` refuses by it what somebody wrote.

It restates the rules from the problem. A lane's program has operations, each behind a slot of its device. At level
weights a stage is gathered (UNSHARD) and freed (RESHARD) again and again, in turns. A message is made by the end of its
operation, and starts at the moment at which it stands at the head of every queue that it is in: nobody delays it. It
lasts its latency, and what needs it starts no earlier than it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain, product
from typing import Any, NamedTuple

from pipesched.checks import joined, shown
from pipesched.core.arrays import Ints, column, in_range, np
from pipesched.core.clock import check_deadline
from pipesched.pipeline.plan.metrics import ScheduleMetrics
from pipesched.pipeline.plan.plan import NOTHING_BEFORE, Plan
from pipesched.pipeline.problem.ops import NO_NUMBER, Op, OpIndex, StepOp
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import in_units, to_fraction

ON_DEVICES, ON_LANES = ("OPTIMIZER", "E", "G"), ("UNSHARD", "RESHARD", "REDUCE_GRAD", "REDUCE_TIED")
AT_ONCE = -1  # what an operation of a lane stands after that is issued at once
NOT_DUE = {
    "UNSHARD": "each stage is gathered once, where the problem has costs.gather",
    "RESHARD": "weights stay whole below level weights",
    "REDUCE_GRAD": "the problem does not reduce gradients so",
    "REDUCE_TIED": "the problem does not reduce tied gradients there",
    "OPTIMIZER": "each stage has one, where the problem has costs.optimizer",
    "E": "the problem has no such side work",
    "G": "the problem has no such backward of side work",
}


def level_is(problem: Problem, *levels: str) -> bool:
    """Return whether the problem shards at one of these levels."""
    return problem.shard is not None and problem.shard.level in levels


def reduces_each(problem: Problem) -> bool:
    """Return whether gradients are reduced once a stage and microbatch."""
    return problem.shard is not None and problem.shard.reduce == "each"


def tied_ends(problem: Problem) -> tuple[int, ...]:
    """Return the first and the last stage where they add up tied gradients between two devices."""
    there = problem.settled_placement.devices
    return (0, problem.stages - 1) if problem.costs.tied is not None and there[0] != there[-1] else ()


Numbers = Sequence[int]  # of the operations of a kind and a stage: microbatches, turns, or one without a number
ONE = (NO_NUMBER,)


def due_rows(problem: Problem) -> Iterator[tuple[str, int, Numbers]]:
    """Yield the operations of the step that each plan of a problem has: a kind, a stage (or side item), and numbers.

    At level weights it has as many gathers as its program has turns, which `checked_programs` looks at.
    """
    stages, microbatches = range(problem.stages), range(problem.microbatches)
    trains = problem.mode == "train"
    if problem.costs.gather is not None and not level_is(problem, "weights"):
        yield from (("UNSHARD", stage, range(1)) for stage in stages)
    if trains and (problem.costs.reduce is not None or level_is(problem, "gradients", "weights")):
        yield from (("REDUCE_GRAD", stage, microbatches if reduces_each(problem) else ONE) for stage in stages)
    if trains:
        yield from (("REDUCE_TIED", stage, ONE) for stage in tied_ends(problem))
    if trains and problem.costs.optimizer is not None:
        yield from (("OPTIMIZER", stage, ONE) for stage in stages)
    for number, item in enumerate(problem.side):
        yield "E", number, microbatches
        if item.backward is not None:
            yield "G", number, microbatches


@lru_cache(maxsize=2)
def step_columns(index: OpIndex) -> tuple[Ints, Ints, Ints]:
    """Return the kinds, the stages or items, and the numbers of the operations of the step in turn."""
    rows = index.scoped  # of each kind of the step how many operations each stage, or side item, has
    counts = [count for one in rows for count in one.counts]
    stages = [stage for one in rows for stage in range(len(one.counts))]
    numbers = [np.arange(count) if one.numbered else np.full(count, NO_NUMBER) for one in rows for count in one.counts]
    kinds = np.repeat(np.array([one.kind for one in rows], dtype=str), column([one.size for one in rows]))
    return kinds, np.repeat(column(stages), column(counts)), np.concatenate(numbers) if numbers else column(())


def latest(index: OpIndex, values: Ints, kinds: str, width: int, stages: Ints) -> Ints:
    """Return the operation of the largest value among some kinds of each stage and each group of `width` units."""
    rows = [index.of_kind(kind) for kind in kinds if kind in index.letters]
    tables = [values[row.start : row.stop].reshape(index.stages, -1, width)[stages] for row in rows]
    which, unit = np.divmod(np.concatenate(tables, axis=2).argmax(axis=2), width)
    firsts = stages[:, None] * index.units + np.arange(0, index.units, width)
    found: Ints = column([row.start for row in rows])[which] + firsts + unit
    return found


def entries_of(plan: Plan, device: int) -> tuple[Ints, Ints]:
    """Return the program of a lane as columns: operations, and the slots behind which they stand."""
    entries = column([*chain.from_iterable(plan.network[device])])
    return entries[::2], entries[1::2]


def _is_fit(problem: Problem, plan: Plan) -> bool:
    """Return whether the operations that are due, and no others, stand once each where their kinds belong."""
    index, (kinds, *_) = plan.index, step_columns(plan.index)
    turns = ("UNSHARD", "RESHARD") if level_is(problem, "weights") else ()
    named = {
        (rows.kind, place): range(count) if rows.numbered else ONE[:count]
        for rows in index.scoped if rows.kind not in turns
        for place, count in enumerate(rows.counts) if count
    }  # fmt: skip
    if named != {(kind, place): numbers for kind, place, numbers in due_rows(problem)}:
        return False
    slots = column([number for row in plan.step_slots for _, number in row])
    lanes = np.concatenate([column(()), *(entries_of(plan, device)[0] for device in range(len(plan.network)))])
    on_devices, first = np.logical_or.reduce([kinds == kind for kind in ON_DEVICES]), index.passes
    if not all((numbers >= first).all() for numbers in (slots, lanes)):
        return False
    there = [np.bincount(numbers - first, minlength=len(on_devices)) for numbers in (slots, lanes)]
    return bool((there[0] == on_devices).all() and (there[1] == ~on_devices).all())


def unfit_step(problem: Problem, plan: Plan) -> Iterator[str]:
    """Yield operations of the step that are missing, stand twice, or stand where none of their kind may."""
    if _is_fit(problem, plan):
        return
    found = dict[Op, list[str]]()
    slots = [[number for _, number in row] for row in plan.step_slots]
    lanes = [[number for number, _ in program] for program in plan.network]
    for kinds, rows, what in ((ON_DEVICES, slots, "device"), (ON_LANES, lanes, "the network lane of device")):
        for device, number in ((device, number) for device, row in enumerate(rows) for number in row):
            op = plan.index.op(number)
            if op.kind in kinds:
                found.setdefault(op, []).append(f"{what} {device}")
            else:
                home = "a network lane moves it" if op.kind in ON_LANES else "a device runs it"
                yield f"{op} has no place on {what} {device}: {home}"
    due: dict[Op, None] = dict.fromkeys(
        StepOp._make((place, kind, number, 0)) for kind, place, numbers in due_rows(problem) for number in numbers
    )
    has_turns = level_is(problem, "weights")
    numbered = map(plan.index.op, range(plan.index.passes, plan.index.first_message))
    for op, where in (*found.items(), *((op, ["no device"]) for op in numbered if op not in found)):
        if op not in due and not (has_turns and op.kind in ("UNSHARD", "RESHARD")):
            yield f"{op} on {where[0]} is none of the problem: {NOT_DUE[op.kind]}"
        elif len(where) > 1:
            yield f"{op} runs {len(where)} times: on {joined(where)}"
    for op in due:
        if op not in found:
            is_side, lane = op.kind in ("E", "G"), "" if op.kind in ON_DEVICES else "the network lane of "
            side = f": it runs on {_devices(problem.side[op.stage].devices)}" if is_side else ""
            home = side or f" on {lane}device {problem.settled_placement.devices[op.stage]}"
            yield f"{op} is missing{home}"


def _devices(devices: Sequence[int]) -> str:
    return f"device {devices[0]}" if len(devices) == 1 else f"one of the devices {', '.join(map(str, devices))}"


def misplaced_step(problem: Problem, plan: Plan) -> Iterator[str]:
    """Yield operations of the step on other devices than theirs, and waits that nothing can keep."""
    index, there = plan.index, problem.settled_placement.devices
    runs_on = {number: device for device, row in enumerate(plan.step_slots) for _, number in row}
    for number, device in runs_on.items():
        op, forward = index.op(number), device
        if op.kind == "OPTIMIZER":
            allowed: tuple[int, ...] = (there[op.stage],)
        else:
            allowed = problem.side[op.stage].devices
            forward = runs_on.get(index.row("E", op.stage)[op.microbatch], device)
        if device not in allowed:
            yield f"{op} runs on device {device}, not on {_devices(allowed)}"
        elif forward != device:
            yield f"{op} runs on device {device}, but its forward on device {forward}"
    _, stages, _ = step_columns(index)
    for device in range(len(plan.network)):
        numbers = entries_of(plan, device)[0]
        homes = column(there)[stages[numbers - index.passes]]
        for number, home in zip(numbers[homes != device].tolist(), homes[homes != device].tolist(), strict=True):
            yield f"{index.op(number)} is on the network lane of device {device}, not on that of device {home}"
    frees = index.of_kind("RESHARD")
    for before, after in plan.waits if frees else ():
        if after in frees:
            op = index.op(after)
            what = f"{op} on the network lane of device {there[op.stage]} cannot wait for {index.op(before)}"
            yield f"{what}: it takes no time"


def checked_programs(problem: Problem, plan: Plan, devices: Iterable[int] = ()) -> list[CheckedProgram]:
    """Return what the program of each lane means, or of those of some devices, as far as it is right."""
    place, found = np.full(plan.index.size, -1), []
    pairs = column(plan.pairs.keys()), column(plan.pairs.values())
    for device in devices or range(len(plan.network)):
        check_deadline()
        order = column(plan.orders[device])
        place[order] = np.arange(len(order))
        found.append(CheckedProgram(problem, plan, device, place, pairs))
        place[:] = -1
    return found


class CheckedProgram:
    """What the program of a lane means for the slots of its device, and a sentence for each rule that it breaks.

    `starts` holds slots, each with the UNSHARD behind whose end it starts; `freed` each RESHARD with its UNSHARD; both
    as far as the program is right. `place` is that of each slot among those of its device, -1 for others.
    """

    def __init__(self, problem: Problem, plan: Plan, device: int, place: Ints, pairs: tuple[Ints, Ints]) -> None:
        self.problem, self.plan, self.index, self.device, self.place = problem, plan, plan.index, device, place
        self.lane, self.pairs = f"on the network lane of device {device}", pairs
        self.starts, self.freed = list[tuple[int, int]](), dict[int, int]()
        number, after = entries_of(plan, device)
        columns = step_columns(self.index)
        is_tied = columns[0][number - self.index.passes] == "REDUCE_TIED"
        # of each entry the place of the slot behind which it stands; only those with a place on this device are issued
        behind = np.where(after == AT_ONCE, -1, place[after])
        is_issued = ~is_tied & ((after == AT_ONCE) | (behind >= 0))
        self.issued = number[is_issued]
        kind, stage, turn = (values[self.issued - self.index.passes] for values in columns)
        self.kind, self.stage, self.turn, self.behind = kind, stage, turn, behind[is_issued]
        self.wrong = [*self._goes_back(number, after, is_tied, is_issued)]
        if not self.wrong:
            place[pairs[1]] = np.maximum(place[pairs[1]], place[pairs[0]])
            self.wrong += self._early_reductions()
            if level_is(problem, "weights"):
                self._follow_turns()
                return
            # below, each gather comes before the first forward of its stage
            for at in np.flatnonzero(self.kind == "UNSHARD").tolist():
                row, gather = self.index.row("F", int(self.stage[at])), int(self.issued[at])
                places = place[row.start : row.stop]
                there = np.flatnonzero(places >= 0)
                if len(there):
                    first = int(there[places[there].argmin()])
                    self.starts.append((row[first], gather))
                    if places[first] <= self.behind[at]:
                        what = f"runs on device {device} before {self.index.op(gather)} is issued there"
                        self.wrong.append(f"{self.index.op(row[first])} {what}")

    def _goes_back(self, number: Ints, after: Ints, is_tied: Ints, is_issued: Ints) -> Iterator[str]:
        """Yield operations that stand behind no slot of the device, or before what the program has before them."""
        there, goes_back = np.flatnonzero(is_issued), np.zeros(len(number), dtype=bool)
        goes_back[there[1:]] = self.behind[1:] < self.behind[:-1]
        for at in np.flatnonzero(goes_back | (is_tied & (after != AT_ONCE)) | ~(is_issued | is_tied)).tolist():
            op = self.index.op(int(number[at]))
            what = f"after {self.index.op(int(after[at]))}" if after[at] != AT_ONCE else "before all slots"
            if is_tied[at]:
                what = f"{what}, but it is issued behind no slot"
            elif not is_issued[at]:
                what = f"{what}, which is no slot of device {self.device}"
            else:
                last = self.issued[np.searchsorted(there, at) - 1]
                what = f"{what}, and goes back behind {self.index.op(int(last))}"
            yield f"{op} {self.lane} stands {what}"

    def _early_reductions(self) -> Iterator[str]:
        """Yield reductions that are issued before a backward that they need."""
        is_reduction = self.kind == "REDUCE_GRAD"
        if not is_reduction.any():
            return
        stages, where = np.unique(self.stage[is_reduction], return_inverse=True)
        width = self.index.slices if reduces_each(self.problem) else self.index.units
        last = latest(self.index, self.place, "BW", width, stages)[where, np.maximum(self.turn[is_reduction], 0)]
        late = self.place[last] > self.behind[is_reduction]
        for number, before in zip(self.issued[is_reduction][late].tolist(), last[late].tolist(), strict=True):
            yield f"{self.index.op(number)} {self.lane} stands before {self.index.op(before)}, which it needs"

    def _follow_turns(self) -> None:
        """Note, at level weights, which gather made the stage of each slot whole, and what a RESHARD frees."""
        broken: list[tuple[tuple[int, int, int], str]] = []  # by where along slots and program
        moves: dict[int, tuple[list[int], list[int]]] = {}  # of each stage: behind which places, and what made it whole
        whole, turns = dict[int, int](), dict[int, int]()
        columns = (self.issued, self.kind, self.stage, self.turn, self.behind)
        for at, (number, kind, stage, turn, behind) in enumerate(zip(*(one.tolist() for one in columns), strict=True)):
            if kind not in ("UNSHARD", "RESHARD"):
                continue
            wrong = ""
            if kind == "UNSHARD":
                if stage in whole:
                    wrong = f"gathers stage {stage}, which is whole: {self._free(whole[stage])} is missing before it"
                elif turn != turns.get(stage, 0):
                    wrong = f"is turn {turn} of stage {stage}, not {turns.get(stage, 0)}"
                turns[stage], whole[stage] = turn + 1, number
            elif (gathered := whole.pop(stage, None)) is not None and turns[stage] == turn + 1:
                self.freed[number] = gathered
            else:
                wrong = f"frees stage {stage}, which no UNSHARD of its turn made whole"
            broken += [((behind, 1, at), f"{self.index.op(number)} {self.lane} {wrong}")] if wrong else []
            behinds, gathers = moves.setdefault(stage, ([], [-1]))
            behinds.append(behind)
            gathers.append(whole.get(stage, -1))
        broken += self._use(moves)
        self.wrong += [sentence for _, sentence in sorted(broken)]
        self.wrong += [f"{self._free(number)} is missing {self.lane}" for number in whole.values()]

    def _free(self, gather: int) -> Op:
        return self.index.op(gather)._replace(kind="RESHARD")

    def _use(self, moves: dict[int, tuple[list[int], list[int]]]) -> Iterator[tuple[tuple[int, int, int], str]]:
        """Note the gather of each slot, of a pair those of both parts; yield slots whose stage is sharded."""
        order = self.plan.own_lines[self.device]
        order = order[order < self.index.passes]
        pairs = np.isin(self.pairs[0], order)
        used, slot = (np.append(order, both[pairs]) for both in (self.pairs[1], self.pairs[0]))
        is_second = np.arange(len(used)) >= len(order)
        sort = np.lexsort((is_second, self.place[slot]))
        used, slot, is_second = used[sort], slot[sort], is_second[sort]
        stages = used // self.index.units % self.index.stages
        gather = np.full(len(used), -1)
        for stage, (behinds, gathers) in moves.items():
            there = np.flatnonzero(stages == stage)
            gather[there] = column(gathers)[np.searchsorted(behinds, self.place[slot[there]])]
        is_whole = gather >= 0
        self.starts += zip(slot[is_whole].tolist(), gather[is_whole].tolist(), strict=True)
        for at in np.flatnonzero(gather < 0).tolist():
            what = f"{self.index.op(int(used[at]))} runs on device {self.device} while stage {stages[at]} is sharded"
            yield (int(self.place[slot[at]]), 0, int(is_second[at])), what


class Due(NamedTuple):
    """Messages that are due, as tables: what makes and what needs each, from where to where, and how long it takes."""

    number: slice | Ints
    source: Ints
    target: Ints
    sender: Ints
    receiver: Ints
    lasts: Ints


def _chosen(numbers: slice | Ints, which: Ints) -> Ints:
    """Return those of some operations that a table of truths picks."""
    places = np.flatnonzero(which)
    found: Ints = places + numbers.start if isinstance(numbers, slice) else numbers.ravel()[places]
    return found


class TimeTables:
    """The times of a schedule by kind, stage and unit, beside the tables of its problem."""

    def __init__(self, schedule: ScheduleMetrics) -> None:
        self.schedule, self.problem, self.plan = schedule, schedule.problem, schedule.plan
        self.index = self.plan.index
        self.queue = "" if self.problem.messages is None else self.problem.messages.queue
        both = schedule.times.start, schedule.times.end
        most = max(abs(int(end)) for one in both for end in (one.max(initial=0), one.min(initial=0)))
        self.start, self.end = (in_range(one, 2 * most) for one in both)  # to which the longest durations can be added
        devices = len(self.plan.orders)
        self.orders = self.plan.own_lines[:devices]
        self.lanes = self.plan.own_lines[devices : devices + 2 * len(self.plan.lanes)]
        self.pairs = column(self.plan.pairs.keys()), column(self.plan.pairs.values())
        # of the devices, without optimizers and side work; and all operations of passes in the plan
        self.passes = [order[order < self.index.passes] for order in self.orders] if self.index.scoped else self.orders
        beside = np.concatenate([*self.lanes, self.pairs[1]])
        self.planned: Ints = np.concatenate([*self.passes, beside[beside < self.index.passes]])
        self.runs_on = np.full(self.index.first_message, -1)  # the device of each slot
        for number, order in enumerate(self.orders):
            self.runs_on[order] = number

    def of(self, values: Ints, kind: str) -> Ints:
        """Return the part of a column that is of one kind of passes, by stage and unit."""
        row = self.index.of_kind(kind)
        table: Ints = values[row.start : row.stop].reshape(self.index.stages, self.index.units)
        return table

    def scoped(self, kind: str) -> tuple[Ints, Ints]:
        """Return the operations of a kind of the step, and the stage, or side item, of each."""
        kinds, stages, _ = step_columns(self.index)
        there = np.flatnonzero(kinds == kind)
        return there + self.index.passes, stages[there]

    def present(self, kinds: str) -> list[str]:
        return [kind for kind in kinds if kind in self.index.letters]

    @cached_property
    def begins(self) -> Ints:
        """The starts of operations; where nothing is gathered ahead, of the first in each turn that of its gather."""
        found: Ints = self.start.copy()
        shard = self.problem.shard
        if shard is None or shard.gather != "each":  # then a gather starts as the slot that it is for could without it
            return found
        backward = dict(zip(*(both.tolist() for both in self.pairs), strict=True))
        for program in checked_programs(self.problem, self.plan):
            for gather, slot in {gather: slot for slot, gather in reversed(program.starts)}.items():
                for one in (slot, backward.get(slot, slot)):
                    found[one] = min(found[one], self.start[gather])
        return found

    @property
    def parts(self) -> list[slice]:
        """The units of each run of microbatches that go the same way through the pipeline."""
        return [self.index.in_units(way.microbatches) for way in self.problem.model.ways]

    def homes(self, numbers: Ints | int) -> Any:
        """Return the devices of the stages of passes."""
        where = self.problem.model.where
        return where[numbers // self.index.units % self.index.stages, numbers % self.index.units]

    @cached_property
    def width(self) -> int:
        """How many units a reduction of gradients is of."""
        return self.index.slices if reduces_each(self.problem) else self.index.units

    @cached_property
    def there(self) -> Ints:
        return np.array(self.problem.settled_placement.devices)

    @cached_property
    def due(self) -> list[Due]:
        """The messages that the operations of the plan need: outputs, gradients, and those of each side item."""
        every = [(due, due.sender != due.receiver) for due in (*_of_passes(self), *_of_side_work(self))]
        return [due if crosses.all() else Due(*(_chosen(part, crosses) for part in due)) for due, crosses in every]

    @cached_property
    def message_homes(self) -> Ints:
        """The device that receives each message, and in a second row that which sends it, -1 where none is due."""
        found = np.full((2, self.index.size), -1, dtype=np.int32)
        for due in self.due:
            found[0, due.number], found[1, due.number] = due.receiver.ravel(), due.sender.ravel()
        return found

    def time(self, ticks: int) -> str:
        return shown(in_units(int(ticks), self.problem.ticks.per_unit))


def _of_passes(tables: TimeTables) -> Iterator[Due]:
    """Yield the messages of all boundaries: outputs, and gradients, whose numbers are those of the sending stage."""
    index, model, where = tables.index, tables.problem.model, tables.problem.model.where
    crossed = (where[1:] != where[:-1]).any(axis=1)
    over: Any = slice(None) if crossed.all() else crossed  # a slice copies nothing
    ways = [("SEND_F", _made(tables, "F"), model.there, 1)]
    if index.of_kind("SEND_B"):
        ways.append(("SEND_B", _made(tables, "BI"), model.back, -1))
    for kind, made, lasts, turn in ways:
        rows = index.of_kind(kind)
        (source, target), (here, there) = ((values[:-1][over], values[1:][over])[::turn] for values in (made, where))
        yield Due(slice(rows.start, rows.stop), source, target, here, there, lasts[over])


def _made(tables: TimeTables, kinds: str) -> Ints:
    """Return for each stage and unit the operation of one of some kinds: of B and I, which one the plan has."""
    rows = [column(tables.index.of_kind(kind)).reshape(tables.index.stages, -1) for kind in tables.present(kinds)]
    found: Ints = rows[0] if len(rows) == 1 else np.where(tables.end[rows[0]] >= 0, rows[0], rows[1])
    return found


def _of_side_work(tables: TimeTables) -> Iterator[Due]:
    """Yield the outputs of side work, and the gradients back."""
    index, runs_on = tables.index, tables.runs_on
    for side, item in enumerate(tables.problem.side):
        outputs, grads = (column(index.row(kind, side)) for kind in ("SEND_E", "SEND_G"))
        own, back = (column(index.row(kind, side)) for kind in "EG")
        lasts = np.full(len(own), tables.problem.step_ticks.side_p2p[side])
        used = column(index.row("F", item.into))[:: index.slices]
        yield Due(outputs, own, used, runs_on[own], runs_on[used], lasts)
        if len(back):
            made = _made(tables, "BI")[item.into, :: index.slices]
            yield Due(grads, made, back, runs_on[used], runs_on[back], lasts)


def incomplete_messages(tables: TimeTables) -> Iterator[str]:
    """Yield ends of messages that are missing, stand twice, out of place or where none is due."""
    known, plan, index, where = tables.problem.messages, tables.plan, tables.index, tables.problem.model.where
    if known is None:
        if plan.messages:
            yield "the plan has queues of messages; those of the problem are free"
        return
    if len(plan.messages) != tables.problem.devices:
        yield f"the plan has messages of {len(plan.messages)} devices; the problem has {tables.problem.devices}"
        return
    crosses = (index.units * (where[1:] != where[:-1]).any(axis=1)).tolist()
    counts = {"SEND_F": (*crosses, 0), **({"SEND_B": (0, *crosses)} if tables.problem.mode == "train" else {})}
    counts |= {f"SEND_{rows.kind}": rows.counts for rows in index.scoped if rows.kind in ("E", "G")}
    if {rows.kind: rows.counts for rows in index.sent} != counts:
        yield "the plan has other messages than those between the devices of the problem"
        return
    yield from _misplaced_ends(tables)
    place = np.full(index.first_message + 1, -2)
    place[NOTHING_BEFORE] = -1
    for device, (program, order) in enumerate(zip(plan.messages, tables.orders, strict=True)):
        place[order] = np.arange(len(order))
        behind = place[program.after]
        place[order] = -2
        if len(behind) and behind[0] >= -1 and (behind[1:] >= behind[:-1]).all():
            continue
        for at in np.flatnonzero((behind == -2) | (behind < np.append(-1, behind[:-1]))).tolist():
            name = index.end(int(program.number[at]), int(program.sends[at]))
            yield f"{name} on device {device} stands behind no slot of it, or goes back behind an earlier message"
    for due in tables.due:
        for number in _chosen(due.number, tables.start[due.number] < 0).tolist():
            yield f"{index.op(number)} starts before time 0"


def _misplaced_ends(tables: TimeTables) -> Iterator[str]:
    """Yield ends of messages that are missing, stand twice, or on a device where none is due."""
    index, programs, homes = tables.index, tables.plan.messages, tables.message_homes.ravel()
    ends, stands = [one.number + one.sends * index.size for one in programs], np.zeros(len(homes), dtype=bool)
    for device, row in enumerate(ends):
        stands[row] = True
        for at in row[homes[row] != device].tolist():
            yield f"{index.end(at % index.size, at // index.size)} on device {device} is none of the plan's"
    if not sum(map(len, ends)) == 2 * sum(due.lasts.size for due in tables.due) == np.count_nonzero(stands):
        count = np.bincount(np.concatenate(ends), minlength=len(homes))
        for at in np.flatnonzero((count != 1) & (homes >= 0)).tolist():
            what = f"stands {count[at]} times" if count[at] else "is missing"
            yield f"{index.end(at % index.size, at // index.size)} {what} on device {homes[at]}"


def wrong_messages(tables: TimeTables) -> Iterator[str]:
    """Yield messages at other times than when they stand at the heads of their queues, and what does not wait."""
    start, end, index, time = tables.start, tables.end, tables.index, tables.time
    ready = np.zeros(index.size, dtype=end.dtype)
    for due in tables.due:
        ready[due.number], lasts = end[due.source].ravel(), end[due.number] - start[due.number]
        wrong = lasts.reshape(due.lasts.shape) != due.lasts
        for number, right in zip(_chosen(due.number, wrong).tolist(), due.lasts[wrong].tolist(), strict=True):
            yield f"{index.op(number)} lasts {time(end[number] - start[number])}, not {time(right)}"
    for row in _rows(tables):
        before, after = row[:-1], row[1:]
        ready[after] = np.maximum(ready[after], end[before])  # each stands in a row once
        if tables.queue == "device":
            is_late = (after < index.first_message) & (before >= index.first_message) & (start[after] < end[before])
            for at in np.flatnonzero(is_late).tolist():
                first, then = (index.op(int(row[at])) for row in (before, after))
                yield f"{then} starts before {first} has ended on the same device"
    for due in tables.due:
        for number in _chosen(due.number, start[due.number] != ready[due.number]).tolist():
            what = f"{index.op(number)} starts at {time(start[number])}, not at {time(ready[number])}"
            yield f"{what}, when it is made and at the head of its queues"
    for due in tables.due:
        early = start[due.target].ravel() < end[due.number]
        for one, number in zip(*(_chosen(part, early).tolist() for part in (due.target, due.number)), strict=True):
            what = f"{index.op(one)} starts at {time(start[one])}, before {index.op(number)} is delivered"
            yield f"{what} at {time(end[number])}"


def _rows(tables: TimeTables) -> Iterator[Ints]:
    """Yield what goes one after another, in order: of an edge in that of its sender, else in that of each device."""
    queue, first = tables.queue, tables.index.first_message
    for device, (program, order) in enumerate(zip(tables.plan.messages, tables.orders, strict=True)):
        if queue in ("edge", "pair"):
            numbers = program.number[program.sends >= (queue == "edge")]
            receiver, sender = tables.message_homes[:, numbers]
            others = np.where(sender == device, receiver, sender)
            yield from (numbers[others == other] for other in {*others.tolist()})
        elif queue == "rank":
            yield program.number
        else:
            place = np.full(first + 1, -1)
            place[order] = np.arange(len(order))
            yield np.insert(program.number, np.searchsorted(place[program.after], np.arange(len(order))), order)


def buffer_changes(tables: TimeTables) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield what receive buffers take and free, as device, time and size: of messages between stages alone.

    Each is taken at time 0, or where messages occupy devices as what stands before it there ends.
    """
    problem, index = tables.problem, tables.index
    issued = np.zeros(index.size, dtype=tables.end.dtype)
    for device, row in enumerate(_rows(tables) if tables.queue == "device" else ()):
        there = np.flatnonzero(row[1:] >= index.first_message) + 1
        there = there[tables.message_homes[0, row[there]] == device]
        issued[row[there]] = tables.end[row[there - 1]]
    each = to_fraction(problem.memory.receive) * problem.grains.per_unit
    factors = [1] * problem.microbatches if problem.sizes is None else map(to_fraction, problem.sizes.message)
    sizes = column([int(each * factor * to_fraction(share)) for factor in factors for share in problem.slices.tokens])
    for due in tables.due:
        own = np.maximum(due.source, due.target) < index.passes
        there, size = due.receiver[own], sizes[due.target[own] % index.units]
        yield there, issued[_chosen(due.number, own)], size
        yield there, tables.end[due.target[own]], -size


def incomplete_step(tables: TimeTables) -> Iterator[str]:
    """Yield operations of the step that are missing, stand twice or out of place, or have no start from time 0 on."""
    yield from unfit_step(tables.problem, tables.plan)
    index, plan = tables.index, tables.plan
    early = np.flatnonzero(tables.start[index.passes : index.first_message] < 0) + index.passes
    if len(early):
        planned = np.zeros(index.size, dtype=bool)
        for numbers in (*tables.orders, *(entries_of(plan, device)[0] for device in range(len(plan.network)))):
            planned[numbers] = True
        for number in early[planned[early]].tolist():
            yield f"{index.op(number)} starts before time 0"


def wrong_step(tables: TimeTables) -> Iterator[str]:
    """Yield operations of the step that are out of place, or have other times than the rules say."""
    programs = checked_programs(tables.problem, tables.plan)
    wrong = [*misplaced_step(tables.problem, tables.plan), *chain.from_iterable(one.wrong for one in programs)]
    yield from wrong
    if not wrong and tables.index.scoped:
        yield from _StepRules(tables, programs).broken()


class _StepRules:
    """The rules of the times of a step."""

    def __init__(self, tables: TimeTables, programs: Sequence[CheckedProgram]) -> None:
        self.tables, self.problem, self.index = tables, tables.problem, tables.index
        self.start, self.end, self.programs = tables.start, tables.end, programs

    def broken(self) -> Iterator[str]:
        yield from self._lengths()
        for device, program in enumerate(self.programs):
            yield from self._of_lane(device, program)
        both = self.index.of_kind("REDUCE_TIED")
        if len({(self.start[number], self.end[number]) for number in both}) > 1:
            yield f"{' and '.join(map(self._where, both))} are one, but do not start and end together"
        ends, clip = tied_ends(self.problem), [*range(self.index.stages)] if self.problem.clip else []
        for number in self.index.of_kind("OPTIMIZER"):
            stage = self.index.stage_of(number)
            needed = self._latest(clip or [stage], everything=bool(clip) or stage in ends)
            yield from self._before(number, needed, on=int(self.tables.there[stage]))
        numbers, every = self.tables.scoped("REDUCE_GRAD")[0], np.arange(self.index.stages)
        if len(numbers):
            last = latest(self.index, self.end, "BW", self.tables.width, every).ravel()
            for at in np.flatnonzero(self.start[numbers] < self.end[last]).tolist():
                yield self._early(int(numbers[at]), int(last[at]))
        for number in both:
            yield from self._before(number, self._latest(ends))
        yield from self._side()

    def _where(self, number: int) -> str:
        op = self.index.op(number)
        if number < self.index.passes or self.tables.runs_on[number] >= 0:
            return str(op)
        return f"{op} on the network lane of device {self.tables.there[op.stage]}"

    def _early(self, number: int, before: int, lag: int = 0, *, on: int = -1, begin: int | None = None) -> str:
        """Return the sentence of an operation that starts before another has ended (and its message is there)."""
        begin = int(self.start[number]) if begin is None else begin
        one = f"{'the gather for ' if begin < self.start[number] else ''}{self._where(number)}"
        start, end = self.tables.time(begin), self.tables.time(self.end[before] + lag)
        what, where = "the message" if lag else "the end", f" on device {on}" if on >= 0 else ""
        return f"{one}{where} starts at {start}, before {what} of {self._where(before)} at {end}"

    def _lengths(self) -> Iterator[str]:
        """Yield operations that last another time than they should; with own lengths, that end before they start."""
        first, is_own = self.index.passes, self.tables.schedule.own_lengths
        lasts = self.end[first : self.index.first_message] - self.start[first : self.index.first_message]
        due = np.concatenate([self._due(rows.kind) for rows in self.index.scoped])
        may_last = is_own & (step_columns(self.index)[0] != "RESHARD")
        for at in np.flatnonzero(np.where(may_last, lasts < 0, lasts != due)).tolist():
            what = f"lasts {self.tables.time(lasts[at])}, not {self.tables.time(due[at])}"
            yield f"{self._where(first + at)} {'ends before it starts' if may_last[at] else what}"

    def _due(self, kind: str) -> Ints:
        """Return what the operations of a kind of the step have to last."""
        times, (numbers, stages) = self.problem.step_ticks, self.tables.scoped(kind)
        by_stage = {"UNSHARD": times.gather, "REDUCE_GRAD": times.reduce, "OPTIMIZER": times.optimizer}
        if kind in ("E", "G"):
            microbatches = step_columns(self.index)[2][numbers - self.index.passes]
            rows = zip(stages.tolist(), microbatches.tolist(), self.tables.runs_on[numbers].tolist(), strict=True)
            return column(times.side_lasts("forward" if kind == "E" else "backward", *row) for row in rows)
        every = [times.tied if kind == "REDUCE_TIED" else 0] * self.index.stages
        due: Ints = column(by_stage.get(kind, every))[stages]
        return due

    def _of_lane(self, device: int, program: CheckedProgram) -> Iterator[str]:
        """Yield what starts too early on a lane, or on its device before the weights are there; and RESHARD late."""
        number, after = entries_of(self.tables.plan, device)
        ready = np.where(after == AT_ONCE, 0, self.end[after])
        is_free = np.isin(number, [*program.freed])
        gathers = column([program.freed[one] for one in number[is_free].tolist()])
        ready[is_free] = np.maximum(ready[is_free], self.end[gathers])
        for at in np.flatnonzero(np.where(is_free, self.start[number] != ready, self.start[number] < ready)).tolist():
            one, time = int(number[at]), self.tables.time
            if is_free[at]:
                what = f"{self._where(one)} is at {time(self.start[one])}, not at {time(ready[at])}"
                yield f"{what}, when the slot before it and its UNSHARD have ended"
            else:
                yield self._early(one, int(after[at]))
        moved = number[~is_free]
        for at in np.flatnonzero(self.start[moved[1:]] < self.end[moved[:-1]]).tolist():
            before = self.index.op(int(moved[at]))
            yield f"{self._where(int(moved[at + 1]))} starts before {before} has ended on the same lane"
        slots, before = column([*chain.from_iterable(program.starts)]).reshape(-1, 2).T
        for at in np.flatnonzero(self.start[slots] < self.end[before]).tolist():
            yield self._early(int(slots[at]), int(before[at]), on=device)

    def _before(self, number: int, needed: Ints, on: int = -1) -> Iterator[str]:
        for before in needed[self.end[needed] > self.start[number]].tolist():
            yield self._early(number, before, on=on)

    def _latest(self, stages: Sequence[int], *, everything: bool = False) -> Ints:
        """Return the last backward and the last reduction of some stages; with `everything` the tied one too."""
        rows, tied = [last[column(stages)] for last in self._last], self.index.of_kind("REDUCE_TIED")
        if everything and tied:
            rows.append(column([max(tied, key=self.end.__getitem__)]))
        return np.concatenate([column(()), *rows])

    @cached_property
    def _last(self) -> list[Ints]:
        """The last B, W and reduction of each stage, of those that there are."""
        index, stages = self.index, np.arange(self.index.stages)
        found = [latest(index, self.end, kind, index.units, stages)[:, 0] for kind in self.tables.present("BW")]
        reductions = self.tables.scoped("REDUCE_GRAD")[0]
        if len(reductions):
            rows = reductions.reshape(index.stages, -1)
            found.append(rows[stages, self.end[rows].argmax(axis=1)])
        return found

    def _side(self) -> Iterator[str]:
        """Yield side work, and what it is for, that starts before its input is there."""
        for kind, side in product("EG", range(len(self.problem.side))):
            check_deadline()
            number, into = column(self.index.row(kind, side)), self.problem.side[side].into
            device = self.tables.runs_on[number]
            lag = np.where(device == self.tables.there[into], 0, self.problem.step_ticks.side_p2p[side])
            if kind == "E":
                used, on = column(self.index.row("F", into))[:: self.index.slices], int(self.tables.there[into])
                begins = self.tables.begins[used]
                for at in np.flatnonzero(begins < self.end[number] + lag).tolist():
                    pair = int(used[at]), int(number[at])
                    yield self._early(*pair, int(lag[at]), on=on, begin=int(begins[at]))
            elif len(number):
                last = latest(self.index, self.end, "BI", self.index.slices, column([into]))[0]
                forward, none = column(self.index.row("E", side)), 0 * lag
                needs = [(before, hop, self.start[number] < self.end[before] + hop)
                         for before, hop in ((last, lag), (forward, none))]  # fmt: skip
                for at in np.flatnonzero(needs[0][2] | needs[1][2]).tolist():
                    for before, hop, is_early in needs:
                        if is_early[at]:
                            yield self._early(int(number[at]), int(before[at]), int(hop[at]), on=int(device[at]))
