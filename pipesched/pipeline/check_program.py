"""The check of what a plan has of the step beside its passes: which operations, where, and in which order.

It restates the rules from the problem, and reads the plan alone, without times. So a program that somebody wrote is
refused with a sentence before anything reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from pipesched.checks import joined
from pipesched.core.arrays import Ints, column, np
from pipesched.core.clock import look
from pipesched.pipeline.ops import NO_NUMBER, Op, OpIndex, StepOp
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


def gathers_each(problem: Problem) -> bool:
    """Return whether nothing is gathered ahead: a gather starts as the slot that it is for could without it."""
    return problem.shard is not None and problem.shard.gather == "each"


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


class StepColumns(NamedTuple):
    """Of the operations of the step, by their places behind the passes: kinds, stages or items, and numbers."""

    kind: Ints
    stage: Ints
    number: Ints


@lru_cache(maxsize=2)
def step_columns(index: OpIndex) -> StepColumns:
    """Return what the operations of the step are."""
    rows = index.scoped
    counts = [count for one in rows for count in one.counts]
    stages = [stage for one in rows for stage in range(len(one.counts))]
    numbers = [np.arange(count) if one.numbered else np.full(count, NO_NUMBER) for one in rows for count in one.counts]
    kinds = np.repeat(np.array([one.kind for one in rows], dtype=str), column([one.size for one in rows]))
    return StepColumns(
        kinds, np.repeat(column(stages), column(counts)), np.concatenate(numbers) if numbers else column(())
    )


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
    index, columns = plan.index, step_columns(plan.index)
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
    on_devices, first = np.logical_or.reduce([columns.kind == kind for kind in ON_DEVICES]), index.passes
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


def misplaced_step(problem: Problem, plan: Plan) -> Iterator[str]:
    """Yield operations of the step on other devices than theirs, and waits that nothing can keep."""
    index, there = plan.index, problem.settled_placement.devices
    yield from _misplaced_slots(problem, plan)
    for device in range(len(plan.network)):
        numbers = entries_of(plan, device)[0]
        homes = column(there)[step_columns(index).stage[numbers - index.passes]]
        for number, home in zip(numbers[homes != device].tolist(), homes[homes != device].tolist(), strict=True):
            yield f"{index.op(number)} is on the network lane of device {device}, not on that of device {home}"
    frees = index.of_kind("RESHARD")
    for before, after in plan.waits if frees else ():
        if after in frees:
            op = index.op(after)
            what = f"{op} on the network lane of device {there[op.stage]} cannot wait for {index.op(before)}"
            yield f"{what}: it takes no time"


def _misplaced_slots(problem: Problem, plan: Plan) -> Iterator[str]:
    runs_on = {number: device for device, row in enumerate(plan.step_slots) for _, number in row}
    for number, device in runs_on.items():
        op, forward = plan.index.op(number), device
        if op.kind == "OPTIMIZER":
            allowed: tuple[int, ...] = (problem.settled_placement.devices[op.stage],)
        else:
            allowed = problem.side[op.stage].devices
            forward = runs_on.get(plan.index.row("E", op.stage)[op.microbatch], device)
        if device not in allowed:
            yield f"{op} runs on device {device}, not on {_devices(allowed)}"
        elif forward != device:
            yield f"{op} runs on device {device}, but its forward on device {forward}"


def checked_programs(problem: Problem, plan: Plan, devices: Iterable[int] = ()) -> list[CheckedProgram]:
    """Return what the program of each lane means, or of those of some devices, as far as it is right."""
    place, found = np.full(plan.index.size, -1), []
    pairs = column(plan.pairs.keys()), column(plan.pairs.values())
    for device in devices or range(len(plan.network)):
        look()
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
        is_tied = step_columns(self.index).kind[number - self.index.passes] == "REDUCE_TIED"
        behind = np.where(after == AT_ONCE, -1, place[after])
        is_issued = ~is_tied & ((after == AT_ONCE) | (behind >= 0))
        self.issued = number[is_issued]
        kind, stage, turn = (values[self.issued - self.index.passes] for values in step_columns(self.index))
        self.kind, self.stage, self.turn, self.behind = kind, stage, turn, behind[is_issued]
        self.wrong = [*self._goes_back(number, after, is_tied, is_issued)]
        if not self.wrong:
            place[pairs[1]] = np.maximum(place[pairs[1]], place[pairs[0]])
            self.wrong += self._early_reductions()
            follow = self._follow_turns if level_is(problem, "weights") else self._find_first_forwards
            follow()

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

    def _find_first_forwards(self) -> None:
        """Note of each gather, below level weights, the first forward of its stage, which comes after it."""
        for at in np.flatnonzero(self.kind == "UNSHARD").tolist():
            row, gather = self.index.row("F", int(self.stage[at])), int(self.issued[at])
            places = self.place[row.start : row.stop]
            there = np.flatnonzero(places >= 0)
            if not len(there):
                continue
            first = int(there[places[there].argmin()])
            self.starts.append((row[first], gather))
            if places[first] <= self.behind[at]:
                what = f"runs on device {self.device} before {self.index.op(gather)} is issued there"
                self.wrong.append(f"{self.index.op(row[first])} {what}")

    def _follow_turns(self) -> None:
        """Note, at level weights, which gather made the stage of each slot whole, and what a RESHARD frees."""
        said: list[tuple[tuple[int, int, int], str]] = []  # by where along slots and program
        moves: dict[int, tuple[list[int], list[int]]] = {}  # of each stage: behind which places, and what made it whole
        whole, turns = dict[int, int](), dict[int, int]()
        columns = (self.issued, self.kind, self.stage, self.turn, self.behind)
        for at, (number, kind, stage, turn, behind) in enumerate(zip(*(one.tolist() for one in columns), strict=True)):
            if kind not in ("UNSHARD", "RESHARD"):
                continue
            wrong = self._move(number, kind, stage, turn, whole, turns)
            said += [((behind, 1, at), f"{self.index.op(number)} {self.lane} {wrong}")] if wrong else []
            behinds, gathers = moves.setdefault(stage, ([], [-1]))
            behinds.append(behind)
            gathers.append(whole.get(stage, -1))
        said += self._use(moves)
        self.wrong += [sentence for _, sentence in sorted(said)]
        self.wrong += [f"{self._free(number)} is missing {self.lane}" for number in whole.values()]

    def _free(self, gather: int) -> Op:
        return self.index.op(gather)._replace(kind="RESHARD")

    def _move(
        self, number: int, kind: str, stage: int, turn: int, whole: dict[int, int], turns: dict[int, int]
    ) -> str | None:
        """Gather or free a stage; return what is wrong with that."""
        if kind == "RESHARD":
            gathered = whole.pop(stage, None)
            if gathered is None or turns[stage] != turn + 1:
                return f"frees stage {stage}, which no UNSHARD of its turn made whole"
            self.freed[number] = gathered
            return None
        wrong = None
        if stage in whole:
            wrong = f"gathers stage {stage}, which is whole: {self._free(whole[stage])} is missing before it"
        elif turn != turns.get(stage, 0):
            wrong = f"is turn {turn} of stage {stage}, not {turns.get(stage, 0)}"
        turns[stage], whole[stage] = turn + 1, number
        return wrong

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
