"""From pipelines to the core: operations become tasks, devices resources, activations memory.

The numbers of the tasks are the numbers of the operations in the plan's OpIndex. The table of kinds says what each kind
needs, takes and gives; between two devices the latency of the boundary is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, groupby, product
from typing import NamedTuple

import numpy as np

from pipesched.core.arrays import Ints, column
from pipesched.core.tasks import NOWHERE, Edges, TaskGraph
from pipesched.errors import ConfigError
from pipesched.pipeline.kinds import KINDS, STEP_SLOTS, Need
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan, mismatch
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step_lowering import waits_of, with_step_tasks

_NO_PAIRS: Mapping[int, int] = {}


def lower_plan(problem: Problem, plan: Plan) -> TaskGraph:
    """Return the task graph, in ticks and grains, of the operations of `plan`; a pair is the task of its forward.

    Raises ConfigError for a plan of another problem.
    """
    wrong = mismatch(problem, plan)
    if wrong:
        raise ConfigError(wrong, "plan")
    absent: Set[int] = frozenset()
    if _count_passes(plan) < plan.index.passes:
        absent = set(range(plan.index.passes)).difference(*plan.orders, *chain(*plan.lanes), plan.pairs.values())
    graph = lower(problem, plan.index.without_step, absent, plan.pairs, waits_of(plan))
    return with_step_tasks(graph, problem, plan) if plan.index.scoped else graph


def _count_passes(plan: Plan) -> int:
    """Return the number of operations that stages run of units (a pair counts twice), where no other stands twice."""
    slots = sum(rows.size for rows in plan.index.scoped if rows.kind in STEP_SLOTS)
    return sum(map(len, plan.orders)) - slots + sum(map(len, chain(*plan.lanes))) + len(plan.pairs)


def lower(
    problem: Problem,
    index: OpIndex,
    absent: Set[int] = frozenset(),
    pairs: Mapping[int, int] = _NO_PAIRS,
    waits: Iterable[tuple[int, int]] = (),
) -> TaskGraph:
    """Return the task graph, in ticks and grains, of all operations of `index`.

    The `absent` ones become tasks of no length on no resource.

    Memory pools are the devices; resources are the devices and then, with transfers, two lanes (to host memory, back)
    for each Problem.lane_pair. `pairs` maps forwards to the backwards that run with them, `waits` are further
    precedences.
    """
    duration, take, give = _columns(problem, index)
    pool = _devices_of(problem, index)
    resource = _resources(problem, index, pool)
    _give_at_forward(problem, index, absent, give)
    edges = Edges.joined(map(_edges_of, _rows(problem, index)))
    further = Edges(*map(column, zip(*waits, strict=True))) if (waits := [*waits]) else Edges((), ())
    if absent or pairs:
        task, forwards, backwards = np.arange(index.size), column(pairs.keys()), column(pairs.values())
        task[backwards] = forwards
        gone = column(absent)
        for values in (duration, take, give):
            values[gone] = 0
        for forward, ticks in pair_durations(problem, index, pairs):
            duration[forward] = ticks
        duration[backwards] = 0
        resource[gone] = resource[backwards] = NOWHERE
        for values in (take, give):
            values[forwards] += values[backwards]
            values[backwards] = 0
        is_gone = np.zeros(index.size, dtype=bool)
        is_gone[gone] = True
        edges = edges.where(~(is_gone[edges.before] | is_gone[edges.after]))
        edges, further = (Edges(task[one.before], task[one.after], one.lag) for one in (edges, further))
    return TaskGraph(duration, resource, (1,) * _resource_count(problem, index), [edges, further], take, give, pool)


def pair_durations(problem: Problem, index: OpIndex, pairs: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield each forward of a pair with the pair's ticks: `overlap` by its stage, else the sum of its parts."""
    if problem.has_units:
        yield from _unit_pairs(problem, index, pairs)
        return
    ticks_of = [way.ticks for way in problem.directions(index.microbatches) for _ in way.microbatches]
    for forward, backward in pairs.items():
        ticks, stage = ticks_of[index.owner_of(forward)], index.stage_of(forward)
        if ticks.overlap is not None:
            yield forward, ticks.overlap[stage]
        else:
            other = ticks_of[index.owner_of(backward)]
            yield forward, ticks.forward[stage] + other.backward[index.stage_of(backward)]


def _unit_pairs(problem: Problem, index: OpIndex, pairs: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the same where units differ."""
    lasts = problem.unit_ticks.lasts

    def ticks(key: str, number: int) -> int:
        return lasts[key][index.stage_of(number)][index.owner_of(number)]

    for forward, backward in pairs.items():
        if "overlap" in lasts:
            yield forward, ticks("overlap", forward)
        else:
            yield forward, ticks("forward", forward) + ticks("backward", backward)


def _columns(problem: Problem, index: OpIndex) -> tuple[Ints, Ints, Ints]:
    """Return duration, memory taken at the start and memory given back at the end, of each operation."""
    if problem.has_units:
        return _unit_columns(problem, index)
    nothing, grains, ways = (0,) * index.stages, problem.grains, problem.directions(index.microbatches)
    durations = {
        letter: [(way.ticks.of(letter) or nothing, len(way.microbatches)) for way in ways] for letter in index.letters
    }
    takes = {letter: grains.of(KINDS[letter].takes) for letter in index.letters}
    gives = {letter: grains.of(KINDS[letter].gives) for letter in index.letters}

    def lasts(letter: str, stage: int) -> Sequence[int]:
        rows = durations[letter]
        if len(rows) == 1:
            return (rows[0][0][stage],)
        return [*chain.from_iterable([values[stage]] * count for values, count in rows)]

    def of_stages(values: Mapping[str, Sequence[int]]) -> Ints:
        return index.table(lambda letter, stage: (values[letter][stage],))

    return index.table(lasts), of_stages(takes), of_stages(gives)


def _unit_columns(problem: Problem, index: OpIndex) -> tuple[Ints, Ints, Ints]:
    """Return the same where units differ."""
    ticks, grains = problem.unit_ticks.lasts, problem.unit_grains

    def lasts(letter: str, stage: int) -> Sequence[int]:
        key = KINDS[letter].cost
        return ticks[key][stage] if key in ticks else (0,)

    def takes(letter: str, stage: int) -> Sequence[int]:
        return grains.takes(letter, KINDS[letter].takes, stage, index.slices, problem.mode)

    def gives(letter: str, stage: int) -> Sequence[int]:
        return grains.gives(letter, KINDS[letter].gives, stage, index.slices, problem.mode)

    return index.table(lasts), index.table(takes), index.table(gives)


def _devices_of(problem: Problem, index: OpIndex) -> Ints:
    """Return the device of each operation."""
    ways = problem.directions(index.microbatches)
    rows = [
        (ways[0].devices[stage],)
        if len(ways) == 1
        else [*chain.from_iterable([way.devices[stage]] * (len(way.microbatches) * index.slices) for way in ways)]
        for stage in range(index.stages)
    ]
    return index.table(lambda _, stage: rows[stage])


def _has_lanes(index: OpIndex) -> bool:
    return any(KINDS[letter].is_transfer for letter in index.letters)


def _resource_count(problem: Problem, index: OpIndex) -> int:
    return problem.devices + (2 * problem.lane_pairs if _has_lanes(index) else 0)


def _resources(problem: Problem, index: OpIndex, devices: Ints) -> Ints:
    """Return the resource of each operation: its device, or a lane of that device where it is a transfer."""
    resources: Ints = devices.copy()
    for letter in index.letters:
        if KINDS[letter].is_transfer:
            lanes = column(problem.resource(device, KINDS[letter].resource) for device in range(problem.devices))
            row = index.of_kind(letter)
            resources[row.start : row.stop] = lanes[devices[row.start : row.stop]]
    return resources


def _give_at_forward(problem: Problem, index: OpIndex, absent: Set[int], gives: Ints) -> None:
    """Let a forward give back at its end what R will take again: all but the checkpoint."""
    for letter in index.letters:
        given = KINDS[letter].forward_gives
        if given is None:
            continue
        for stage in range(index.stages):
            row, forwards = index.row(letter, stage), index.row("F", stage)
            sizes = problem.unit_grains.of(given, stage) if problem.has_units else (problem.grains.of(given)[stage],)
            own = np.broadcast_to(column(sizes), len(row))
            for place, number in enumerate(row):
                if number not in absent:
                    gives[forwards[place]] = own[place]


class PrecedenceRow(NamedTuple):
    """The precedences between two rows of operations: each of `before` ends `lag` ticks before its counterpart starts.

    `boundary` is the one between stages whose latency the lag is, -1 inside a device.
    """

    before: range
    after: range
    lag: int = 0
    boundary: int = -1


def precedence_rows(problem: Problem, index: OpIndex) -> Iterator[PrecedenceRow]:
    """Yield the precedences of data between all operations of `index`, row by row."""
    for row in _rows(problem, index):
        if isinstance(row.lags, int):
            yield PrecedenceRow(row.before, row.after, row.lags, row.boundary)
            continue
        for lag, same in groupby(range(len(row.lags)), row.lags.__getitem__):
            part = (places := [*same])[0], places[-1] + 1
            yield PrecedenceRow(row.before[slice(*part)], row.after[slice(*part)], lag, row.boundary)


class _EdgeRow(NamedTuple):
    """The precedences between two rows of operations, with one lag for all, or one each."""

    before: range
    after: range
    lags: int | Sequence[int] = 0
    boundary: int = -1


def _edges_of(row: _EdgeRow) -> Edges:
    return Edges(row.before, row.after, row.lags)


def _rows(problem: Problem, index: OpIndex) -> Iterator[_EdgeRow]:
    needs = [(letter, need) for letter in index.letters for need in KINDS[letter].needs if need.letter in index.letters]
    for stage in range(index.stages):
        for letter, need in needs:
            if need.slice:
                yield from _between_slices(index, need, letter, stage)
            elif not need.stage:
                yield _EdgeRow(index.row(need.letter, stage), index.row(letter, stage))
    for stage, way in product(range(index.stages - 1), _ways_of_edges(problem, index)):
        crosses = way.devices[stage] != way.devices[stage + 1]
        for letter, need in needs:
            if need.stage:
                before, after = (stage, stage + 1) if need.stage < 0 else (stage + 1, stage)
                rows = index.row(need.letter, before)[way.units], index.row(letter, after)[way.units]
                yield _EdgeRow(*rows, *((way.lags(before, after), stage) if crosses else ()))


def _between_slices(index: OpIndex, need: Need, letter: str, stage: int) -> Iterator[_EdgeRow]:
    """Yield what the operations of a kind on a stage need of other slices of their microbatch."""
    before, after, count = index.row(need.letter, stage), index.row(letter, stage), index.slices
    for part in range(max(-need.slice, 0), count - max(need.slice, 0)):
        yield _EdgeRow(before[part + need.slice :: count], after[part::count])


class _WayOfEdges(NamedTuple):
    """A direction of the pipeline: which units go it, the device of each stage, and the latency of their edges.

    `lags(before, after)` is that from a stage to a neighbour, or those of the units.
    """

    units: slice
    devices: Sequence[int]
    lags: Callable[[int, int], int | Sequence[int]]


def _ways_of_edges(problem: Problem, index: OpIndex) -> list[_WayOfEdges]:
    ways = problem.directions(index.microbatches)
    if problem.has_units:
        return [
            _WayOfEdges(part := index.in_units(way.microbatches), way.devices, _unit_lags(problem, part))
            for way in ways
        ]
    if all(way.ticks is ways[0].ticks for way in ways):  # one edge for both directions
        ways = [ways[0]._replace(microbatches=range(index.microbatches))]

    return [_WayOfEdges(index.in_units(way.microbatches), way.devices, way.ticks.hop) for way in ways]


def _unit_lags(problem: Problem, part: slice) -> Callable[[int, int], int | Sequence[int]]:
    ticks = problem.unit_ticks

    def lags(before: int, after: int) -> int | Sequence[int]:
        row = (ticks.hops[before] if before < after else ticks.hops_back[after])[part]
        return row[0] if row and row.count(row[0]) == len(row) else row

    return lags
