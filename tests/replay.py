"""A second, naive replay of a plan, written from the semantics in docs/explanation/semantics.md alone.

It reads a plan as texts of operations and keeps everything in dictionaries. It shares no code with the lowering, the
timing and the metrics that it judges: slow, plain, and meant to be read beside the rules.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import NamedTuple

from pipesched.pipeline.costs import Entry
from pipesched.pipeline.problem import Problem


class Op(NamedTuple):
    """One operation: stage, kind (F, B, I, W, R, O or L) and microbatch."""

    stage: int
    kind: str
    microbatch: int


class Stuck(Exception):
    """The devices wait for each other; `at` holds the slot at which each of them waits."""

    def __init__(self, at: list[str]) -> None:
        super().__init__(f"stuck at {at}")
        self.at = at


class Replayed(NamedTuple):
    """When each operation starts and ends, by its text, and the metrics; times in ticks, memory in grains."""

    start: dict[str, int]
    end: dict[str, int]
    makespan: int
    span: int
    busy: list[int]
    peak: list[Fraction]


def replay(
    problem: Problem,
    plan: Sequence[Sequence[str]],
    lanes: Sequence[Sequence[str]] = (),
    waits: Collection[tuple[str, str]] = (),
) -> Replayed:
    """Run the slots of each device (and of each lane) in order, each as early as its inputs allow. Raises Stuck.

    The second operation of each pair in `waits` starts at the end of its first at the earliest.
    """
    start, end = _times(problem, [*plan, *lanes], waits)
    moves = [[op for lane in lanes for op in lane if _home(problem, op) == device] for device in range(len(plan))]
    first = [min(start[name(op)] for slot in slots for op in parts(slot)) for slots in plan if slots]
    last = [max(end[name(op)] for slot in slots for op in parts(slot)) for slots in plan if slots]
    return Replayed(
        start,
        end,
        makespan=max(last) - min(first),
        span=max(after - before for before, after in zip(first, last, strict=True)),
        busy=[sum(length(problem, slot) for slot in slots) for slots in plan],
        peak=[_peak(problem, [*slots, *moved], start, end) for slots, moved in zip(plan, moves, strict=True)],
    )


def parts(slot: str) -> list[Op]:
    """The operations in the text of a slot: one, or the forward and the backward of a pair."""
    return [Op(int(stage), kind, int(mb)) for stage, kind, mb in re.findall(r"(\d+)([FBIWROL])(\d+)", slot)]


def name(op: Op) -> str:
    """The text of an operation."""
    return f"{op.stage}{op.kind}{op.microbatch}"


def device_of(problem: Problem, stage: int, microbatch: int) -> int:
    """Where a stage of a microbatch runs; in a bidirectional pipeline the second half runs the other way."""
    placement = problem.settled_placement
    if placement.mirrored and microbatch >= problem.microbatches // 2:
        return problem.devices - 1 - placement.devices[stage]
    return placement.devices[stage]


def _home(problem: Problem, text: str) -> int:
    [op] = parts(text)
    return device_of(problem, op.stage, op.microbatch)


def length(problem: Problem, slot: str) -> int:
    """How long a slot takes; a pair takes `overlap` (by the stage of its forward), else the sum of its parts.

    All but O and L are divided by the speed of their device, and then have nine digits.
    """
    costs, ops = problem.costs, parts(slot)
    speed = _speed(problem, ops[0])
    if len(ops) == 2 and costs.overlap is not None:
        return _in_ticks(problem, _divided(_exactly(costs.overlap[ops[0].stage]), speed))
    time = Fraction(0)
    for stage, kind, _ in ops:
        if kind in "OL":
            moved = costs.offload if kind == "O" else costs.reload
            time += _exactly((moved or ())[stage])
            continue
        halves = costs.backward_input[stage], costs.backward_weight[stage]
        cost = {
            "F": (costs.forward[stage],),
            "B": halves if costs.whole is None else costs.whole[stage : stage + 1],
            "I": halves[:1],
            "W": halves[1:],
            "R": (costs.recompute[stage],),
        }
        time += _divided(sum(map(_exactly, cost[kind]), Fraction(0)), speed)
    return _in_ticks(problem, time)


def _speed(problem: Problem, op: Op) -> Fraction:
    home = device_of(problem, op.stage, op.microbatch)
    return Fraction(1) if problem.speed is None else _exactly(problem.speed[home])


def _divided(cost: Fraction, speed: Fraction) -> Fraction:
    """A cost on a device of a speed: as it is where that is 1, else rounded half up to nine significant digits."""
    if speed == 1 or not cost:
        return cost
    time, unit = cost / speed, Fraction(1)
    while time < unit * 10**8:
        unit /= 10
    while time >= unit * 10**9:
        unit *= 10
    return (time / unit + Fraction(1, 2)).__floor__() * unit


def _in_ticks(problem: Problem, time: Fraction) -> int:
    ticks = time * problem.ticks.per_unit
    assert ticks.denominator == 1
    return int(ticks)


def inputs(problem: Problem, op: Op, planned: Collection[Op] = ()) -> list[tuple[set[Op], int]]:
    """What `op` waits for: of each set of operations the one that is in the plan, and then the lag.

    An R or L of the same stage and microbatch counts only if it stands in `planned`.
    """
    stage, kind, mb = op
    if kind in "WL":
        return [({Op(stage, {"W": "I", "L": "O"}[kind], mb)}, 0)]
    if kind == "F":
        return [({Op(stage - 1, "F", mb)}, _lag(problem, stage - 1, stage, mb))] if stage > 0 else []
    own = ({Op(stage, "F", mb)}, 0)
    if kind in "RO":
        return [own]
    back = [({Op(stage, saved, mb)}, 0) for saved in "RL" if Op(stage, saved, mb) in planned]
    if stage == problem.stages - 1:
        return [own, *back]
    return [own, *back, ({Op(stage + 1, "B", mb), Op(stage + 1, "I", mb)}, _lag(problem, stage + 1, stage, mb))]


def _lag(problem: Problem, before: int, after: int, microbatch: int) -> int:
    """The latency from a stage to one beside it: only between two devices, p2p and the link from one to the other."""
    here, there = (device_of(problem, stage, microbatch) for stage in (before, after))
    if here == there:
        return 0
    link = Fraction(0) if problem.links is None else _exactly(problem.links[here][there])
    return _in_ticks(problem, _exactly(problem.costs.p2p[min(before, after)]) + link)


def _times(
    problem: Problem, plan: Sequence[Sequence[str]], waits: Collection[tuple[str, str]]
) -> tuple[dict[str, int], dict[str, int]]:
    planned = {op for slots in plan for slot in slots for op in parts(slot)}
    start: dict[str, int] = {}
    end: dict[str, int] = {}
    clock = [0] * len(plan)
    coming = [list(slots) for slots in plan]
    while any(coming):
        moved = False
        for device, slots in enumerate(coming):
            while slots:
                ready = [_ready(problem, op, planned, end) for op in parts(slots[0])]
                ready += [end.get(before) for before, after in waits if after in map(name, parts(slots[0]))]
                if None in ready:
                    break
                begin = max(clock[device], *(time for time in ready if time is not None))
                clock[device] = begin + length(problem, slots[0])
                for op in parts(slots.pop(0)):
                    start[name(op)], end[name(op)] = begin, clock[device]
                moved = True
        if not moved:
            raise Stuck([slots[0] for slots in coming if slots])
    return start, end


def _ready(problem: Problem, op: Op, planned: Collection[Op], end: dict[str, int]) -> int | None:
    """When the inputs of `op` are there; None as long as one has not run."""
    time = 0
    for alternatives, lag in inputs(problem, op, planned):
        ends = [end[name(one)] for one in alternatives if name(one) in end]
        if not ends:
            return None
        time = max(time, ends[0] + lag)
    return time


def _peak(problem: Problem, slots: Sequence[str], start: dict[str, int], end: dict[str, int]) -> Fraction:
    """The largest activation memory, by sorted events: at one time what is freed counts before what is taken."""
    events: list[tuple[int, Fraction]] = []
    for op in (op for slot in slots for op in parts(slot)):
        whole = Fraction(problem.grains.largest["activation"][op.stage])
        retain = _share(problem.memory.retain[op.stage])
        if op.kind in "FL":
            events.append((start[name(op)], whole))
        elif op.kind == "O":
            events.append((end[name(op)], -whole))
        elif op.kind == "R":
            dropped = whole * (1 - _share(problem.memory.checkpoint[op.stage]))
            events.append((end[name(op._replace(kind="F"))], -dropped))
            events.append((start[name(op)], dropped))
        else:
            if op.kind == "I" and retain > 1:
                events.append((start[name(op)], whole * (retain - 1)))
            share = {"B": Fraction(1), "I": max(1 - retain, Fraction(0)), "W": retain}[op.kind]
            events.append((end[name(op)], -whole * share))
    level = peak = Fraction(0)
    for _, change in sorted(events):
        level += change
        peak = max(peak, level)
    return peak


def _share(value: Entry) -> Fraction:
    """A part of an activation: a float stands for the decimal that it is written as."""
    return _exactly(value)


def _exactly(value: Entry) -> Fraction:
    assert not isinstance(value, tuple)  # microbatches are alike here
    return Fraction(str(value))
