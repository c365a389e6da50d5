"""What a page knows of a step beside its passes: operations, precedences that hold in any order, programs, and memory.

A range of operations is two numbers, its first and the one behind its last. Of a reduction that follows the rule, whose
slot is the last backward that it needs, the page finds the slot anew in each order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pipesched.pipeline.kinds import ALL_KINDS
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.step import GRADIENTS, WEIGHTS
from pipesched.pipeline.step_memory import SIDE, WHOLE_GRADIENTS, WHOLE_WEIGHTS
from pipesched.pipeline.step_plan import NOTHING_BEFORE, SIDE_KINDS
from pipesched.render.cells import chunk_of, chunk_of_stage, is_numbered
from pipesched.render.palette import HUES, colour_of

Palette = dict[tuple[int, ...], int]
Arc = tuple[int, int, int, int, int]  # ranges before and behind, of which one may hold one operation; latency
START, END = 0, 1  # what of operations begins or ends a stay: their first start, or their last end


def step_data(schedule: Schedule, palette: Palette) -> dict[str, Any]:
    """Return what the page reads of the step of a schedule; colours are added to `palette`."""
    index, step = schedule.plan.index, _StepData(schedule)
    kinds = [rows.kind for rows in index.scoped]
    return {
        "beside": [step.operation(number, schedule, palette) for number in range(index.passes, index.size)],
        "signs": [*index.letters, *kinds],
        "names": [ALL_KINDS[kind].name for kind in kinds],
        "arcs": [*step.arcs()],
        "programs": step.programs(),
        "stays": [*step.stays()],
        "sharded": schedule.problem.sharding.divides(WEIGHTS),
    }


class _StepData:
    """The step of one plan."""

    def __init__(self, schedule: Schedule) -> None:
        problem, plan = schedule.problem, schedule.plan
        self.problem, self.plan, self.index = problem, plan, plan.index
        self.there, self.chunks = problem.settled_placement.devices, chunk_of_stage(schedule)
        self.place = {number: place for order in plan.orders for place, number in enumerate(order)}
        self.place |= {backward: self.place[forward] for forward, backward in plan.pairs.items()}
        self.runs_on = {number: device for device, order in enumerate(plan.orders) for number in order}

    def operation(self, number: int, schedule: Schedule, palette: Palette) -> list[Any]:
        """Return text, kind, stage, microbatch (-1: none), duration, device and tone; of RESHARD its UNSHARD too."""
        op = self.index.op(number)
        microbatch = op.microbatch if is_numbered(op.kind) else -1
        shown = "UNSHARD" if op.kind == "RESHARD" else op.kind  # which takes no time
        look = shown, chunk_of(op, self.chunks), max(self.chunks) + 1
        hues = [colour_of(hue if is_numbered(op.kind) else None, *look) for hue in range(len(HUES))]
        key = tuple(red << 16 | green << 8 | blue for red, green, blue in (colour_of(None, *look), *hues))
        kind = [*self.index.kinds].index(op.kind)
        device = self.runs_on.get(number, 0) if op.kind in SIDE_KINDS else self.there[op.stage]
        row = [str(op), kind, op.stage, microbatch, schedule.graph.durations[number], device]
        gather = [self.index.number(op._replace(kind="UNSHARD"))] if op.kind == "RESHARD" else []
        return [*row, palette.setdefault(key, len(palette)), *gather]

    def arcs(self) -> Iterator[Arc]:
        """Yield the precedences of data, of residency and of programs."""
        reduces = "REDUCE_GRAD" in self.index.kinds
        for stage in range(self.index.stages):
            yield from self._reduced(stage)
            done = [self.index.row("REDUCE_GRAD", stage)] if reduces else self._backwards(stage)
            for one in self.index.row("OPTIMIZER", stage):
                tied = self.index.row("REDUCE_TIED", stage) if "REDUCE_TIED" in self.index.kinds else range(0)
                yield from (_arc(row, one) for row in self._all_done() if self.problem.clip)
                yield from (_arc(row, one) for row in (*done, tied))
            for one in self.index.row("REDUCE_TIED", stage) if stage in (0, self.index.stages - 1) else ():
                yield from self._tied(one)
        yield from self._of_side()
        for device, program in enumerate(self.plan.network):
            yield from self._resident(device)
            for number, after in program:
                if after != NOTHING_BEFORE and not self._is_by_rule(number, after):
                    yield _arc(range(after, after + 1), number)

    def _backwards(self, stage: int) -> list[range]:
        return [self.index.row(kind, stage) for kind in "BW" if kind in self.index.letters]

    def _reduced(self, stage: int) -> Iterator[Arc]:
        for reduction in self.index.row("REDUCE_GRAD", stage):
            yield from (_arc(row, reduction) for row in self._needed(reduction))

    def _needed(self, reduction: int) -> list[range]:
        """Return the backwards that a reduction needs."""
        op = self.index.op(reduction)
        part = slice(None) if op.number is None else self.index.in_units(range(op.number, op.number + 1))
        return [row[part] for row in self._backwards(op.stage)]

    def _all_done(self) -> Iterator[range]:
        """Yield what all optimizers wait for where gradients are clipped."""
        for kind in ("REDUCE_GRAD", "REDUCE_TIED") if "REDUCE_GRAD" in self.index.kinds else ("REDUCE_TIED", *"BW"):
            if kind in self.index.kinds:
                yield self.index.of_kind(kind)

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
                    yield _arc(range(begin := self.index.row("E", item)[op.microbatch], begin + 1), one)

    def _resident(self, device: int) -> Iterator[Arc]:
        """Yield the wait of passes for the gather of their weights: of a turn, those up to the next one."""
        program = self.plan.network[device]
        gathers = [(number, after) for number, after in program if self.index.kind_of(number) == "UNSHARD"]
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

    def programs(self) -> list[list[tuple[int, int, int]]]:
        """Return each lane's program: operation, slot behind which it is issued, and whether the rule names that."""
        return [
            [(number, after, int(self._is_by_rule(number, after))) for number, after in program]
            for program in self.plan.network
        ]

    def _is_by_rule(self, number: int, after: int) -> bool:
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
                    yield (
                        into,
                        SIDE,
                        output,
                        END,
                        [one for row in rows for one in row if one in self.place],
                        START,
                        [last],
                    )


def _arc(before: range, after: int, lag: int = 0) -> Arc:
    return before.start, before.stop, after, after + 1, lag
