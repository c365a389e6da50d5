"""The check of a step's times: restated from the problem, its plan, and when each operation starts and ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from operator import ge

from pipesched.checks import shown
from pipesched.pipeline.check_program import (
    AT_ONCE,
    CheckedProgram,
    backwards_of,
    checked_programs,
    misplaced_step,
    step_operations,
    tied_ends,
    unfit_step,
)
from pipesched.pipeline.check_times import CheckedTimes
from pipesched.pipeline.ops import Op
from pipesched.pipeline.quantities import Exact, in_units
from pipesched.pipeline.schedule import Schedule

NEEDY = ("REDUCE_GRAD", "REDUCE_TIED", "OPTIMIZER")
COST_OF = {"UNSHARD": "gather", "REDUCE_GRAD": "reduce", "OPTIMIZER": "optimizer"}  # by stage


def incomplete_step(schedule: Schedule) -> Iterator[str]:
    """Yield operations of the step that are missing, stand twice or out of place, or have no start from time 0 on."""
    yield from unfit_step(schedule.problem, schedule.plan)
    first = schedule.plan.index.passes
    if min(schedule.start_ticks[first:], default=0) < 0:
        network = chain.from_iterable(schedule.plan.network)
        planned = {*chain(*schedule.plan.orders), *(number for number, _ in network)}
        for number, op in step_operations(schedule.plan.index).items():
            if schedule.start_ticks[number] < 0 and number in planned:
                yield f"{op} starts before time 0"


def wrong_step(schedule: Schedule) -> Iterator[str]:
    """Yield operations of the step that are out of place, or have other times than the rules say."""
    programs = checked_programs(schedule.problem, schedule.plan)
    wrong = [*misplaced_step(schedule.problem, schedule.plan), *chain.from_iterable(one.wrong for one in programs)]
    yield from wrong
    if not wrong and schedule.plan.index.scoped:
        yield from _StepTimes(schedule, programs).broken()


class _StepTimes:
    """The operations of the step with their times."""

    def __init__(self, schedule: Schedule, programs: Sequence[CheckedProgram]) -> None:
        self.schedule, self.problem, self.plan = schedule, schedule.problem, schedule.plan
        self.index, self.starts, self.ends = self.plan.index, schedule.start_ticks, schedule.end_ticks
        self.ops = step_operations(self.index)
        self.there = self.problem.settled_placement.devices
        self.runs_on = {number: device for device, row in enumerate(self.plan.step_slots) for _, number in row}
        self.programs, self._known = programs, dict[tuple[Exact, Exact], int]()
        self._lasts: dict[range, int] = {}
        self._in_time: dict[int, bool] = {}

    def broken(self) -> Iterator[str]:
        """Yield a sentence for each rule that is broken."""
        yield from self._lengths()
        for device, program in enumerate(self.programs):
            yield from self._of_lane(device, program)
        yield from self._apart()
        yield from self._needs()
        yield from self._side()

    def _time(self, ticks: int) -> str:
        return shown(in_units(ticks, self.problem.ticks.per_unit))

    def _where(self, number: int) -> str:
        """Return the text of an operation and where it runs."""
        if number < self.index.passes or number in self.runs_on:
            return str(self.index.op(number))
        return f"{self.ops[number]} on the network lane of device {self.there[self.ops[number].stage]}"

    def _lengths(self) -> Iterator[str]:
        rows = [row for rows in self.index.scoped for row in self.index.rows(rows.kind) if not self._lasts_as_due(row)]
        for number, op in ((number, self.ops[number]) for row in rows for number in row):
            lasts = self.ends[number] - self.starts[number]
            if self.schedule.own_lengths and op.kind != "RESHARD":
                if lasts < 0:
                    yield f"{self._where(number)} ends before it starts"
                continue
            due = self._due(number, op)
            if lasts != due:
                yield f"{self._where(number)} lasts {self._time(lasts)}, not {self._time(due)}"

    def _lasts_as_due(self, row: range) -> bool:
        """Return whether all operations of a row, which last the same, last what they should."""
        if self.schedule.own_lengths or not row:
            return not row
        op = self.ops[row[0]]
        if op.kind in ("E", "G"):
            item = self.problem.side[op.stage]
            if self.problem.speed is not None or max(len(item.forward), len(item.backward or ())) > 1:
                return False
        part = slice(row.start, row.stop)
        return {*map(int.__sub__, self.ends[part], self.starts[part])} == {self._due(row[0], op)}

    def _due(self, number: int, op: Op) -> int:
        """Return what an operation lasts, in ticks."""
        problem = self.problem
        speed: Exact = 1
        if problem.speed is not None and number in self.runs_on:
            speed = problem.speed[self.runs_on[number]]
        time: Exact = 0
        if op.kind in COST_OF:
            column = getattr(problem.costs, COST_OF[op.kind])
            time = 0 if column is None else column[op.stage]
        elif op.kind == "REDUCE_TIED":
            time = problem.costs.tied or 0
        elif op.kind in ("E", "G"):
            item = problem.side[op.stage]
            times = (item.forward if op.kind == "E" else item.backward) or (0,)
            time = times[op.microbatch] if len(times) > 1 else times[0]
        return self._ticks(time, speed)

    def _ticks(self, time: Exact, speed: Exact = 1) -> int:
        if (time, speed) not in self._known:
            self._known[time, speed] = CheckedTimes(self.problem).scaled(time, speed)
        return self._known[time, speed]

    def _of_lane(self, device: int, program: CheckedProgram) -> Iterator[str]:
        """Yield what starts too early on a lane, or on its device before the weights are there; and RESHARD late."""
        gathered, entries = dict(program.freed), self.plan.network[device]
        starts, ends = self.starts, self.ends
        on_time = {number for number, after in entries if starts[number] >= (0 if after == AT_ONCE else ends[after])}
        for number, after in entries if gathered or len(on_time) < len(entries) else ():
            ready = 0 if after == AT_ONCE else self.ends[after]
            if number in gathered:
                due = max(ready, self.ends[gathered[number]])
                if self.starts[number] != due:
                    what = f"{self._where(number)} is at {self._time(self.starts[number])}"
                    yield f"{what}, not at {self._time(due)}, when the slot before it and its UNSHARD have ended"
            elif self.starts[number] < ready:
                yield self._early(number, after)
        for before, number in pairwise(number for number, _ in entries if number not in gathered):
            if starts[number] < ends[before]:
                yield f"{self._where(number)} starts before {self.index.op(before)} has ended on the same lane"
        for slot, gather in program.gathered:
            if self.starts[slot] < self.ends[gather]:
                yield self._early(slot, gather, f" on device {device}")

    def _early(self, number: int, before: int, where: str = "", lag: int = 0) -> str:
        """Return the sentence of an operation that starts before another has ended (and its message is there)."""
        start, end = self._time(self.starts[number]), self._time(self.ends[before] + lag)
        what = "the message" if lag else "the end"
        return f"{self._where(number)}{where} starts at {start}, before {what} of {self._where(before)} at {end}"

    def _apart(self) -> Iterator[str]:
        """Yield both ends of REDUCE_TIED where they do not start and end together."""
        both = [number for number, op in self.ops.items() if op.kind == "REDUCE_TIED"]
        if len({(self.starts[number], self.ends[number]) for number in both}) > 1:
            names = " and ".join(map(self._where, both))
            yield f"{names} are one, but do not start and end together"

    def _needs(self) -> Iterator[str]:
        """Yield what starts before the last of the backwards, and of the operations of the step, that it needs."""
        clipped = self._latest([*range(self.index.stages)], everything=True) if self.problem.clip else ()
        for number, op in self.ops.items():
            if op.kind not in NEEDY or (op.kind == "REDUCE_GRAD" and self._reduces_in_time(op.stage)):
                continue
            before: Iterable[int] = ()
            if op.kind == "REDUCE_GRAD":
                before = self._last(*backwards_of(self.index, op))
            elif op.kind == "REDUCE_TIED":
                before = self._latest(tied_ends(self.problem))
            elif op.kind == "OPTIMIZER":
                is_end = op.stage in tied_ends(self.problem)
                before = clipped or self._latest([op.stage], everything=is_end)
            for one in before:
                if self.starts[number] < self.ends[one]:
                    where = f" on device {self.runs_on[number]}" if number in self.runs_on else ""
                    yield self._early(number, one, where)

    def _reduces_in_time(self, stage: int) -> bool:
        """Return whether all reductions of a stage that has several start behind the backwards that they need."""
        if stage not in self._in_time:
            index = self.index
            starts = [self.starts[number] for number in index.row("REDUCE_GRAD", stage)]
            rows = [index.row(kind, stage) for kind in "BW" if kind in index.letters]
            parts = [
                self.ends[row.start + part : row.stop : index.slices] for row in rows for part in range(index.slices)
            ]
            is_each = len(starts) == index.microbatches
            self._in_time[stage] = is_each and all(all(map(ge, starts, ends)) for ends in parts)
        return self._in_time[stage]

    def _latest(self, stages: Sequence[int], *, everything: bool = False) -> list[int]:
        """Return the last backward and the last reduction of some stages; with `everything` the tied one too."""
        index = self.index
        kinds = ["B", "W", "REDUCE_GRAD"]
        rows = [index.row(kind, stage) for kind in kinds if kind in index.kinds for stage in stages]
        tied = index.of_kind("REDUCE_TIED") if everything else range(0)
        return [*chain.from_iterable(map(self._last, (*rows, tied)))]

    def _last(self, *rows: range) -> list[int]:
        """Return that of some operations which ends last, if there are any."""
        found = []
        for row in filter(None, rows):
            if row not in self._lasts:
                ends = self.ends[row.start : row.stop]
                self._lasts[row] = row[ends.index(max(ends))]
            found.append(self._lasts[row])
        return [max(found, key=self.ends.__getitem__)] if found else []

    def _side(self) -> Iterator[str]:
        """Yield side work, and what it is for, that starts before its input is there."""
        index, slices = self.index, self.index.slices
        for number, op in self.ops.items():
            if op.kind not in ("E", "G"):
                continue
            item, device = self.problem.side[op.stage], self.runs_on[number]
            lag = 0 if device == self.there[item.into] else self._ticks(item.p2p)
            part = slice(op.microbatch * slices, (op.microbatch + 1) * slices)
            if op.kind == "E":
                used = index.row("F", item.into)[part][0]
                if self.starts[used] < self.ends[number] + lag:
                    yield self._early(used, number, f" on device {self.there[item.into]}", lag)
                continue
            rows = [index.row(kind, item.into)[part] for kind in "BI" if kind in index.letters]
            last, forward = self._last(*rows)[0], index.row("E", op.stage)[op.microbatch]
            for before, hop in ((last, lag), (forward, 0)):
                if self.starts[number] < self.ends[before] + hop:
                    yield self._early(number, before, f" on device {device}", hop)
