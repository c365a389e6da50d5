"""From pipelines to the core: operations become tasks, devices resources, activations memory.

The numbers of the tasks are the numbers of the operations in the plan's OpIndex. The rules are DESIGN section 4:

    F(s,m) after F(s-1,m)        B or I(s,m) after F(s,m) and after B or I(s+1,m)        W(s,m) after I(s,m)

with the p2p latency of the boundary wherever the two devices differ. What saves memory stands between a forward and its
backward, R on the device, O and L on its transfer lanes:

    R(s,m) after F(s,m)    O(s,m) after F(s,m)    L(s,m) after O(s,m)    B or I(s,m) after R(s,m) and after L(s,m)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from operator import sub

from pipesched.core.tasks import NOWHERE, Edge, TaskGraph, arrow
from pipesched.errors import InvalidSchedule
from pipesched.pipeline.ops import TRANSFER_KINDS, OpIndex
from pipesched.pipeline.plan import Plan, mismatch
from pipesched.pipeline.problem import Problem

_NO_PAIRS: Mapping[int, int] = {}


def lower_plan(problem: Problem, plan: Plan) -> TaskGraph:
    """The task graph of the operations that stand in `plan`; a pair is the task of its forward.

    Raises InvalidSchedule for a plan of another problem.
    """
    wrong = mismatch(problem, plan)
    if wrong:
        raise InvalidSchedule(wrong)
    absent: Set[int] = frozenset()
    if len(plan) < plan.index.size:
        absent = set(range(plan.index.size)).difference(*plan.machines, plan.pairs.values())
    return lower(problem, plan.index, absent, plan.pairs, plan.waits)


def lower(
    problem: Problem,
    index: OpIndex,
    absent: Set[int] = frozenset(),
    pairs: Mapping[int, int] = _NO_PAIRS,
    waits: Iterable[tuple[int, int]] = (),
) -> TaskGraph:
    """The task graph of all operations of `index` but the `absent` ones, which become tasks of no length, nowhere.

    Memory pools are the devices; resources are the devices and then, with transfers, two lanes (out, back) for each
    Problem.lane. `pairs` maps forwards to the backwards that run with them, `waits` are further precedences.
    """
    durations, takes, gives = _costs(problem, index)
    pools = _homes(problem, index)
    resources = pools if not absent and not pairs else pools.copy()
    lanes = 2 * problem.lane_count if "O" in index.kinds else 0
    if lanes:
        resources = _with_lanes(problem, index, resources)
    rows = _rows(problem, index)
    edges = _edges_of_some(rows, absent, pairs) if absent or pairs else [Edge(*row) for row in rows]
    edges += _wait_edges(waits, pairs)
    if "R" in index.kinds:
        _give_at_forward(problem, index, absent, gives)
    for number in absent:
        durations[number] = takes[number] = gives[number] = 0
        resources[number] = NOWHERE
    for forward, backward in pairs.items():
        durations[forward] = pair_duration(problem, index, forward, backward)
        gives[forward] += gives[backward]
        durations[backward] = gives[backward] = 0
        resources[backward] = NOWHERE
    return TaskGraph(durations, resources, (1,) * (problem.devices + lanes), edges, takes, gives, pools)


def pair_duration(problem: Problem, index: OpIndex, forward: int, backward: int) -> int:
    """The ticks of an overlapped pair: the config's overlap, by the stage of the forward, else the sum of its parts."""
    stage, costs = index.op(forward).stage, problem.costs
    if costs.overlap is not None:
        return costs.overlap[stage]
    return costs.forward[stage] + costs.backward[index.op(backward).stage]


def _costs(problem: Problem, index: OpIndex) -> tuple[list[int], list[int], list[int]]:
    """Duration, memory taken at the start and memory given back at the end, of each operation."""
    costs, memory, count = problem.costs, problem.memory, index.microbatches
    nothing = (0,) * index.stages
    unkept = tuple(map(sub, memory.activation, memory.checkpointed))
    freed_at_input = tuple(size - held for size, held in zip(memory.activation, memory.retained, strict=True))
    tables = {
        "F": (costs.forward, memory.activation, nothing),
        "B": (costs.backward, nothing, memory.activation),
        "I": (costs.backward_input, nothing, freed_at_input),
        "W": (costs.backward_weight, nothing, memory.retained),
        "R": (costs.recompute, unkept, nothing),
        "O": (costs.offload or nothing, nothing, memory.activation),
        "L": (costs.reload or nothing, memory.activation, nothing),
    }
    columns: tuple[list[int], list[int], list[int]] = ([], [], [])
    for kind in index.kinds:
        for column, per_stage in zip(columns, tables[kind], strict=True):
            _spread(column, per_stage, count)
    return columns


def _spread(column: list[int], per_stage: Sequence[int], count: int) -> None:
    for value in per_stage:
        column += [value] * count


def _homes(problem: Problem, index: OpIndex) -> list[int]:
    """The device of each operation."""
    placement, count = problem.home(), index.microbatches
    first = count // 2 if placement.mirrored else count
    homes: list[int] = []
    for home in placement.devices:
        homes += [home] * first + [problem.devices - 1 - home] * (count - first)
    return homes * len(index.kinds)


def _with_lanes(problem: Problem, index: OpIndex, homes: Sequence[int]) -> list[int]:
    """The resource of each operation: its device, or the lane of that device where it is a transfer."""
    resources = list(homes)
    for way, kind in enumerate(TRANSFER_KINDS):
        for number in chain(*index.rows(kind)):
            resources[number] = problem.devices + 2 * problem.lane(homes[number]) + way
    return resources


def _give_at_forward(problem: Problem, index: OpIndex, absent: Set[int], gives: list[int]) -> None:
    """A forward that will be recomputed leaves its checkpoint alone at its end."""
    memory = problem.memory
    for stage, (forwards, again) in enumerate(zip(index.rows("F"), index.rows("R"), strict=True)):
        for forward, recompute in zip(forwards, again, strict=True):
            if recompute not in absent:
                gives[forward] = memory.activation[stage] - memory.checkpointed[stage]


def _wait_edges(waits: Iterable[tuple[int, int]], pairs: Mapping[int, int]) -> Iterator[Edge]:
    task = {backward: forward for forward, backward in pairs.items()}
    return (arrow(task.get(before, before), task.get(after, after)) for before, after in waits)


def _rows(problem: Problem, index: OpIndex) -> Iterator[tuple[range, range, int]]:
    """The rules as rows: each operation of the first range comes before its counterpart in the second."""
    homes, kinds = problem.home().devices, index.kinds
    backwards = [kind for kind in "BI" if kind in kinds]
    for stage in range(index.stages):
        for backward in backwards:
            yield index.row("F", stage), index.row(backward, stage), 0
        if "W" in kinds and "I" in kinds:
            yield index.row("I", stage), index.row("W", stage), 0
        for before, after in _between(kinds, backwards):
            yield index.row(before, stage), index.row(after, stage), 0
    for stage, hop in enumerate(problem.costs.p2p):
        lag = hop if homes[stage] != homes[stage + 1] else 0
        yield index.row("F", stage), index.row("F", stage + 1), lag
        for later in backwards:
            for backward in backwards:
                yield index.row(later, stage + 1), index.row(backward, stage), lag


def _between(kinds: str, backwards: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The precedences between a forward and its backward that recompute and transfers add."""
    for first, last in ("RR", "OL"):
        if last in kinds:
            yield "F", first
            yield from ((last, backward) for backward in backwards)
    if "O" in kinds:
        yield "O", "L"


def _edges_of_some(rows: Iterable[tuple[range, range, int]], absent: Set[int], pairs: Mapping[int, int]) -> list[Edge]:
    """The rows as edges when some operations are absent and others are one task with their forward."""
    task = {backward: forward for forward, backward in pairs.items()}
    edges: list[Edge] = []
    for before, after, lag in rows:
        present = [arrow for arrow in zip(before, after, strict=True) if absent.isdisjoint(arrow)]
        edges += _runs([(task.get(a, a), task.get(b, b)) for a, b in present], lag)
    return edges


def _runs(arrows: Sequence[tuple[int, int]], lag: int) -> Iterator[Edge]:
    """Neighbouring arrows whose two ends both go up by one, joined into one edge."""
    start = 0
    for place in range(1, len(arrows) + 1):
        (first, target), size = arrows[start], place - start
        if place == len(arrows) or arrows[place] != (first + size, target + size):
            yield Edge(range(first, first + size), range(target, target + size), lag)
            start = place
