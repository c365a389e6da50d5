"""The check of what a plan has of the step beside its passes: which operations, where, and in which order.

It restates the rules from the problem, and reads the plan alone, without times. So a program that somebody wrote is
refused with a sentence before anything reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, repeat
from operator import gt

from pipesched.checks import joined
from pipesched.pipeline.ops import NO_NUMBER, Op, OpIndex, ScopedRows, StepOp
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem

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

    At level weights it has as many gathers as its program has turns, which `wrong_programs` looks at.
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


def _ops(stage: int, kind: str, numbers: Iterable[int]) -> Iterator[Op]:
    return map(partial(tuple.__new__, StepOp), zip(repeat(stage), repeat(kind), numbers, repeat(0)))


def _named(rows: ScopedRows, row: range) -> Numbers:
    """Return the numbers in the texts of a row of operations."""
    return range(len(row)) if rows.numbered else ONE[: len(row)]


@lru_cache(maxsize=2)
def step_operations(index: OpIndex) -> Mapping[int, Op]:
    """Return the operations of the step by their numbers."""
    rows = [(rows, place, row) for rows in index.scoped for place, row in enumerate(index.rows(rows.kind))]
    ops = (_ops(place, rows.kind, _named(rows, row)) for rows, place, row in rows)
    return dict(zip(chain.from_iterable(row for _, _, row in rows), chain.from_iterable(ops), strict=True))


def _is_fit(problem: Problem, index: OpIndex, found: Mapping[Sequence[str], Sequence[Sequence[int]]]) -> bool:
    """Return whether the operations that are due, and no others, are found once each where their kinds belong."""
    turns = ("UNSHARD", "RESHARD") if level_is(problem, "weights") else ()
    rows = [(rows, place, row) for rows in index.scoped for place, row in enumerate(index.rows(rows.kind)) if row]
    named = {(rows.kind, place): _named(rows, row) for rows, place, row in rows if rows.kind not in turns}
    every = {kinds: [*chain.from_iterable(row for rows, _, row in rows if rows.kind in kinds)] for kinds in found}
    is_due = named == {(kind, place): numbers for kind, place, numbers in due_rows(problem)}
    return is_due and all(sorted(chain(*found[kinds])) == every[kinds] for kinds in found)


def unfit_step(problem: Problem, plan: Plan) -> Iterator[str]:
    """Yield operations of the step that are missing, stand twice, or stand where none of their kind may."""
    index = plan.index
    slots = [[number for _, number in row] for row in plan.step_slots]
    lanes = [[number for number, _ in program] for program in plan.network]
    if _is_fit(problem, index, {ON_DEVICES: slots, ON_LANES: lanes}):
        return
    ops, found = step_operations(index), dict[Op, list[str]]()
    for kinds, rows, what in ((ON_DEVICES, slots, "device"), (ON_LANES, lanes, "the network lane of device")):
        for device, number in ((device, number) for device, row in enumerate(rows) for number in row):
            op = ops.get(number) or index.op(number)
            if op.kind in kinds:
                found.setdefault(op, []).append(f"{what} {device}")
            else:
                home = "a network lane moves it" if op.kind in ON_LANES else "a device runs it"
                yield f"{op} has no place on {what} {device}: {home}"
    due = dict.fromkeys(chain.from_iterable(_ops(place, kind, named) for kind, place, named in due_rows(problem)))
    has_turns = level_is(problem, "weights")
    for op, where in found.items():
        if op not in due and not (has_turns and op.kind in ("UNSHARD", "RESHARD")):
            yield f"{op} on {where[0]} is none of the problem: {NOT_DUE[op.kind]}"
        elif len(where) > 1:
            yield f"{op} runs {len(where)} times: on {joined(where)}"
    for op in due:
        if op not in found:
            yield f"{op} is missing{_home(problem, op)}"


def _home(problem: Problem, op: Op) -> str:
    if op.kind in ("E", "G"):
        return f": it runs on {_devices(problem.side[op.stage].devices)}"
    device = problem.settled_placement.devices[op.stage]
    return f" on device {device}" if op.kind in ON_DEVICES else f" on the network lane of device {device}"


def _devices(devices: Sequence[int]) -> str:
    return f"device {devices[0]}" if len(devices) == 1 else f"one of the devices {', '.join(map(str, devices))}"


def wrong_programs(problem: Problem, plan: Plan) -> Iterator[str]:
    """Yield operations of the step on other devices than theirs, and what is wrong with the programs of lanes.

    The operations are those that `unfit_step` finds nothing wrong with.
    """
    yield from misplaced_step(problem, plan)
    yield from chain.from_iterable(program.wrong for program in checked_programs(problem, plan))


def misplaced_step(problem: Problem, plan: Plan) -> Iterator[str]:
    """Yield operations of the step on other devices than theirs, and waits that nothing can keep."""
    ops = step_operations(plan.index)
    there = problem.settled_placement.devices
    yield from _misplaced_slots(problem, plan, ops)
    for device, program in enumerate(plan.network):
        for op in (ops[number] for number, _ in program):
            if there[op.stage] != device:
                yield f"{op} is on the network lane of device {device}, not on that of device {there[op.stage]}"
    for before, after in plan.waits:
        if after in ops and ops[after].kind == "RESHARD":
            device, other = there[ops[after].stage], plan.index.op(before)
            yield f"{ops[after]} on the network lane of device {device} cannot wait for {other}: it takes no time"


def _misplaced_slots(problem: Problem, plan: Plan, ops: Mapping[int, Op]) -> Iterator[str]:
    runs_on = {number: device for device, row in enumerate(plan.step_slots) for _, number in row}
    for number, device in runs_on.items():
        op, forward = ops[number], device
        if op.kind == "OPTIMIZER":
            allowed: tuple[int, ...] = (problem.settled_placement.devices[op.stage],)
        else:
            allowed = problem.side[op.stage].devices
            forward = runs_on.get(plan.index.row("E", op.stage)[op.microbatch], device)
        if device not in allowed:
            yield f"{op} runs on device {device}, not on {_devices(allowed)}"
        elif forward != device:
            yield f"{op} runs on device {device}, but its forward on device {forward}"


@dataclass
class CheckedProgram:
    """What the program of a lane means for the slots of its device, and a sentence for each rule that it breaks.

    `gathered` holds slots, each with the UNSHARD behind whose end it starts; `freed` each RESHARD with its UNSHARD.
    """

    gathered: list[tuple[int, int]] = field(default_factory=list)
    freed: list[tuple[int, int]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def checked_programs(problem: Problem, plan: Plan) -> list[CheckedProgram]:
    """Return what the program of each lane means, as far as it is right."""
    ops = step_operations(plan.index)
    return [checked_program(problem, plan, device, ops) for device in range(len(plan.network))]


def checked_program(problem: Problem, plan: Plan, device: int, ops: Mapping[int, Op]) -> CheckedProgram:
    """Return what the program of the lane of a device means; `ops` are the operations of the step by number."""
    program = plan.network[device]
    places = places_in(plan.orders[device], {after for _, after in program})
    found = CheckedProgram()
    lane = f"on the network lane of device {device}"
    issued: list[tuple[int, int]] = []  # by the place behind which each stands
    for number, after in program:
        op = ops[number]
        if op.kind == "REDUCE_TIED":
            if after != AT_ONCE:
                found.wrong.append(f"{op} {lane} stands after {plan.index.op(after)}, but it is issued behind no slot")
        elif after != AT_ONCE and after not in places:
            found.wrong.append(f"{op} {lane} stands after {plan.index.op(after)}, which is no slot of device {device}")
        else:
            place = places.get(after, -1)
            if issued and place < issued[-1][1]:
                what = f"after {plan.index.op(after)}" if after != AT_ONCE else "before all slots"
                found.wrong.append(f"{op} {lane} stands {what}, and goes back behind {ops[issued[-1][0]]}")
            issued.append((number, place))
    if not found.wrong:
        found.wrong += _early_reductions(plan, device, [(ops[number], place) for number, place in issued], lane)
        if level_is(problem, "weights"):
            _Turns(plan, device, ops, found).run(issued)
        else:
            gathers = [(number, place) for number, place in issued if ops[number].kind == "UNSHARD"]
            _first_forwards(plan, device, gathers, found)
    return found


def places_in(order: Sequence[int], wanted: set[int]) -> dict[int, int]:
    """Return the places of some slots in an order, looked for from its end, near which most of them stand."""
    found: dict[int, int] = {}
    left = len(wanted.difference([AT_ONCE]))
    for place in range(len(order) - 1, -1, -1) if left else ():
        if order[place] in wanted and order[place] not in found:
            found[order[place]] = place
            if len(found) == left:
                break
    return found


def _early_reductions(plan: Plan, device: int, issued: Sequence[tuple[Op, int]], lane: str) -> Iterator[str]:
    """Yield reductions that are issued before a backward that they need."""
    reductions = [(op, place) for op, place in issued if op.kind == "REDUCE_GRAD"]
    if not reductions:
        return
    order, pairs = plan.orders[device], plan.pairs
    behind = min(place for _, place in reductions) + 1  # what stands before is before all of them
    late = {pairs.get(number, number): place for place, number in enumerate(order[behind:], behind)}
    issued_at = {(op.stage, op.microbatch): place for op, place in reductions}
    stages = {stage for stage, _ in issued_at}
    if not late or not any(_is_early(plan.index, stage, issued_at, late) for stage in stages):
        return
    for op, place in reductions:
        needed = late.keys() & {*chain(*backwards_of(plan.index, op))}
        last = max(needed, key=late.__getitem__, default=None)
        if last is not None and late[last] > place:
            yield f"{op} {lane} stands before {plan.index.op(last)}, which it needs"


def _is_early(index: OpIndex, stage: int, issued_at: Mapping[tuple[int, int], int], late: Mapping[int, int]) -> bool:
    """Return whether some backward of a stage comes behind its reduction, by the places of both."""
    whole = issued_at.get((stage, NO_NUMBER), len(late) + max(issued_at.values()) + 1)
    limits = [issued_at.get((stage, microbatch), whole) for microbatch in range(index.microbatches)]
    rows = [index.row(kind, stage)[part :: index.slices] for kind in "BW" if kind in index.letters
            for part in range(index.slices)]  # fmt: skip
    return any(any(map(gt, map(late.get, row, repeat(-1)), limits)) for row in rows)


def backwards_of(index: OpIndex, op: Op) -> list[range]:
    """Return the rows of each B and W that an operation of a stage needs: all, or of its microbatch if it has one."""
    rows = [index.row(kind, op.stage) for kind in "BW" if kind in index.letters]
    if op.microbatch == NO_NUMBER:
        return rows
    part = slice(op.microbatch * index.slices, (op.microbatch + 1) * index.slices)
    return [row[part] for row in rows]


def _first_forwards(plan: Plan, device: int, gathers: Sequence[tuple[int, int]], found: CheckedProgram) -> None:
    """Note of each gather, below level weights, the first forward of its stage, which comes after it."""
    index = plan.index
    for number, place in gathers:
        row = index.row("F", index.stage_of(number))
        at, first = next(((at, one) for at, one in enumerate(plan.orders[device]) if one in row), (0, None))
        if first is None:
            continue
        found.gathered.append((first, number))
        if at <= place:
            found.wrong.append(f"{index.op(first)} runs on device {device} before {index.op(number)} is issued there")


class _Turns:
    """The weights of a device's stages along its slots, at level weights: which are whole, and by which gather."""

    def __init__(self, plan: Plan, device: int, ops: Mapping[int, Op], found: CheckedProgram) -> None:
        self.plan, self.index, self.device, self.ops, self.found = plan, plan.index, device, ops, found
        self.whole: dict[int, int] = {}  # the UNSHARD of each stage that is whole
        self.turns: dict[int, int] = {}

    def run(self, issued: Sequence[tuple[int, int]]) -> None:
        """Go along the slots and the program, of which each operation stands behind the slot at a place."""
        coming = 0
        for place, slot in enumerate(self.plan.orders[self.device]):
            while coming < len(issued) and issued[coming][1] < place:
                self._move(issued[coming][0])
                coming += 1
            self._use(slot)
        for number, _ in issued[coming:]:
            self._move(number)
        for number in self.whole.values():
            op = self.ops[number]._replace(kind="RESHARD")
            self.found.wrong.append(f"{op} is missing on the network lane of device {self.device}")

    def _move(self, number: int) -> None:
        op, lane = self.ops[number], f"on the network lane of device {self.device}"
        if op.kind == "UNSHARD":
            due = self.turns.get(op.stage, 0)
            if op.stage in self.whole:
                freed = self.ops[self.whole[op.stage]]._replace(kind="RESHARD")
                what = f"gathers stage {op.stage}, which is whole: {freed} is missing before it"
                self.found.wrong.append(f"{op} {lane} {what}")
            elif op.microbatch != due:
                self.found.wrong.append(f"{op} {lane} is turn {op.microbatch} of stage {op.stage}, not {due}")
            self.turns[op.stage], self.whole[op.stage] = op.microbatch + 1, number
        elif op.kind == "RESHARD":
            gathered = self.whole.pop(op.stage, None)
            if gathered is None or self.ops[gathered].microbatch != op.microbatch:
                self.found.wrong.append(f"{op} {lane} frees stage {op.stage}, which no UNSHARD of its turn made whole")
            else:
                self.found.freed.append((number, gathered))

    def _use(self, slot: int) -> None:
        for number in (slot, self.plan.pairs[slot]) if slot in self.plan.pairs else (slot,):
            if number < self.index.passes:
                stage = self.index.stage_of(number)
                if stage in self.whole:
                    self.found.gathered.append((slot, self.whole[stage]))
                else:
                    op = self.index.op(number)
                    self.found.wrong.append(f"{op} runs on device {self.device} while stage {stage} is sharded")
