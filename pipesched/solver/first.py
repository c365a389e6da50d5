"""What a solve tries first, so that there is an answer soon: a list schedule of each placement, then quick families.

A list scheduler looks at every operation several times. Where a case is large and the time limit short, that may
already be too long; an order that follows from the budget alone takes a single pass over the operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import inf

from pipesched.core.clock import Clock, TimeIsUp, look, under
from pipesched.pipeline.capacity import least_capacity, taken_by_backwards
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.schedule import schedule_plan, timed_schedule
from pipesched.pipeline.units import FORWARD_ONLY
from pipesched.solver.case import Candidate, Case, Way
from pipesched.solver.search import Search

Orders = list[list[int]]


def quick_rounds(cases: Sequence[Case], order: Sequence[int]) -> Iterator[tuple[int, Iterator[Candidate]]]:
    """Yield the number of each case with a list schedule of it, then each again with the families that are quick."""
    yield from ((number, cases[number].quick_ruled_candidates()) for number in order)
    yield from ((number, cases[number].quick_named_candidates()) for number in order)


def take_first(search: Search) -> None:
    """Offer a schedule that fits, unless the solve is stopped; its plan says where it took longer than the limit."""
    clock = Clock(stop=search.clock.stop)
    for number, case in enumerate(search.cases):
        search.at(f"first schedule, {case.name}")
        try:
            with under(clock):
                for candidate in first_candidates(case):
                    if search.offer(number, candidate, heuristic=True):
                        if search.clock.is_over:
                            _say_so(search, number)
                        return
        except TimeIsUp:
            return


def _say_so(search: Search, number: int) -> None:
    """Note in the plan of a case's best schedule that there was no time for another one."""
    candidate = search.candidates[number]
    if candidate is None or search.clock.is_stopped:
        return
    schedule = candidate.schedule
    operations = f"{schedule.plan.index.size:,} operations"
    note = f"to make and check one schedule of {operations} takes longer than the `time_limit`: no other was tried"
    plan = replace(schedule.plan, note=note)
    noted = timed_schedule(schedule.problem, plan, schedule.times, schedule.graph)
    search.candidates[number] = search.best = candidate._replace(schedule=noted)


def first_candidates(case: Case) -> Iterator[Candidate]:
    """Yield schedules of a case, the quickest to make first; at least one fits, if any order does."""
    ways = case.ways
    together = min(_fitting(case, way, device) for way in ways for device in range(case.problem.devices))
    if together > 0:
        is_linear = len(ways) == 1 and _is_linear(case) and case.index.slices == 1 and len(case.index.letters) > 1
        source = "1f1b within the budget" if is_linear else f"groups of {together}"
        orders = _one_forward_one_backward(case, ways[0]) if is_linear else _in_groups(case, ways, together)
        yield Candidate(source, schedule_plan(case.problem, Plan(case.index, orders)))
    yield from case.quick_ruled_candidates()


def _is_linear(case: Case) -> bool:
    """Return whether a microbatch comes to each device once on its way, and to all of them in their order."""
    devices = case.problem.settled_placement.devices
    return devices == tuple(sorted(devices)) and len(set(devices)) == case.problem.devices


def _fitting(case: Case, way: Way, device: int) -> int:
    """Return how many microbatches of a way a device may hold at once on all of its stages.

    Beside them there is room for what the I of one takes. Without a limit it is the number of all microbatches.
    """
    problem, count = case.problem, case.index.microbatches
    capacity, stages = problem.capacity_grains[device], way.stages[device]
    size = sum(problem.grains.activation[stage] for stage in stages)
    if capacity is None or not size or problem.mode == FORWARD_ONLY:
        return count
    if problem.has_units:
        return min(1 + (capacity - least_capacity(problem, device)) // size, count)
    caught = max(problem.grains.caught[stage] for stage in stages) if problem.costs.split else 0
    return min((capacity - caught) // size, count)


def _one_forward_one_backward(case: Case, way: Way) -> Orders:
    """Return 1F1B with fewer warm-ups where the budget holds fewer, and nowhere more than on the device before."""
    orders: Orders = []
    ahead = [case.index.microbatches] * case.index.microbatches
    for device, stages in enumerate(way.stages):
        look()
        ahead = _ahead(case, device, stages, ahead)
        forwards = [*zip(*(case.index.row("F", stage) for stage in stages), strict=True)]
        rows = [row for stage in reversed(stages) for row in _backward_rows(case, stage)]
        order: list[int] = []
        for begin, end, backward in zip([0, *ahead], ahead, zip(*rows, strict=True), strict=False):
            order += chain.from_iterable(forwards[begin:end])
            order += backward
        orders.append(order)
    return orders


def _ahead(case: Case, device: int, stages: Sequence[int], before: Sequence[int]) -> list[int]:
    """Return how many forwards a device runs before each backward, which on the device before are `before`.

    They are as many as in 1F1B, and as the budget holds beside what an I takes, but at least that of the backward.
    """
    problem = case.problem
    taken, capacity = taken_by_backwards(problem, case.index), problem.capacity_grains[device]
    room = inf if capacity is None else capacity - max(taken[stage] for stage in stages)
    sizes = problem.model.sizes["activation"][[*stages]].sum(axis=0).tolist()
    ahead, held, begun = list[int](), 0, 0
    for number, size in enumerate(sizes):
        most = min(before[number], number + problem.devices - device)
        while begun < most and (begun <= number or held + sizes[begun] <= room):
            held += sizes[begun]
            begun += 1
        ahead.append(begun)
        held -= size
    return ahead


def _in_groups(case: Case, ways: Sequence[Way], size: int) -> Orders:
    """Return all forwards of so many microbatches, stage by stage, then their backwards; groups of ways take turns."""
    orders: Orders = [[] for _ in range(case.problem.devices)]
    for first in range(0, max(len(way.microbatches) for way in ways), size):
        for way in ways:
            group = way.microbatches[first : first + size]
            if group:
                _add_group(case, way, group, orders)
    return orders


def _add_group(case: Case, way: Way, group: range, orders: Orders) -> None:
    count = case.index.slices
    units = [microbatch * count + part for microbatch in group for part in reversed(range(count))]
    for stages, order in zip(way.stages, orders, strict=True):
        look()
        for stage in stages:
            order.extend(case.index.row("F", stage)[case.index.in_units(group)])
        for stage in reversed(stages):
            rows = _backward_rows(case, stage)
            order.extend(row[unit] for unit in units for row in rows)


def _backward_rows(case: Case, stage: int) -> list[range]:
    """Return the row of B, or those of I and W, or of forwards alone none."""
    return [case.index.row(kind, stage) for kind in case.index.letters if kind != "F"]
