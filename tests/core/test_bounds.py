"""Lower bounds: formulas, the true optimum by trying everything, published instances, two jobs, and rounding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import permutations

from hypothesis import example, given, strategies as st

from pipesched.core.arrays import ceil_div, round_up
from pipesched.core.bounds import (
    Job,
    JobPiece,
    critical_path,
    energy,
    head_work_tail,
    jackson_preemptive,
    least_length,
    sharpened,
)
from pipesched.core.listsched import list_schedule
from pipesched.core.tasks import TaskGraph, arrow
from pipesched.core.timing import heads, tails
from tests.core.graphs import random_graphs

# Carlier, The one-machine sequencing problem, EJOR 11 (1982): (head, work, tail). Schrage's rule 53, optimum 50.
CARLIER = [Job(*row) for row in [(10, 5, 7), (13, 6, 26), (11, 7, 24), (20, 4, 21), (30, 3, 8), (0, 6, 17), (30, 2, 0)]]


works = st.lists(st.builds(Job, st.integers(0, 9), st.integers(1, 5), st.integers(0, 9)), min_size=1, max_size=6)


idle_too = st.lists(st.builds(Job, st.integers(0, 9), st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=5)


def optimum(jobs: Sequence[Job], units: int = 1) -> int:
    """The shortest schedule without interruption: every sequence, each job on the unit that is free first."""
    best = sum(sum(job) for job in jobs)
    for sequence in permutations(jobs):
        free, last = [0] * units, 0
        for head, work, tail in sequence:
            free.sort()
            free[0] = max(free[0], head) + work
            last = max(last, free[0] + tail)
        best = min(best, last)
    return best


def by_formula(jobs: Sequence[Job], units: int = 1) -> int:
    """max over all h and q that occur of h + ceil(work of the jobs beyond both / units) + q."""
    best = 0
    for h in {job.head for job in jobs}:
        for q in {job.tail for job in jobs}:
            inside = [job.work for job in jobs if job.head >= h and job.tail >= q]
            if inside:
                best = max(best, h + (sum(inside) + units - 1) // units + q)
    return best


def jackson_by_ticks(jobs: Sequence[Job]) -> int:
    """Jackson's preemptive schedule, one tick at a time."""
    left = [job.work for job in jobs]
    now = best = 0
    while any(left):
        released = [number for number, job in enumerate(jobs) if left[number] and job.head <= now]
        now += 1
        if released:
            number = max(released, key=lambda number: jobs[number].tail)
            left[number] -= 1
            if not left[number]:
                best = max(best, now + jobs[number].tail)
    return best


def merged(jobs: Sequence[Job]) -> list[Job]:
    """Jobs of equal head and tail as one."""
    work: dict[tuple[int, int], int] = {}
    for job in jobs:
        work[job.head, job.tail] = work.get((job.head, job.tail), 0) + job.work
    return [Job(head, total, tail) for (head, tail), total in work.items()]


def test_carlier_1982() -> None:
    """The published instance: its optimum is 50 and both bounds stay at or below that, equal to each other."""
    assert optimum(CARLIER) == 50
    assert jackson_preemptive(CARLIER) == head_work_tail(CARLIER) == by_formula(CARLIER)
    assert max(map(sum, CARLIER)) <= jackson_preemptive(CARLIER) <= 50


@given(jobs=works)
def test_jackson_is_the_best_set_of_jobs_and_below_the_optimum(jobs: list[Job]) -> None:
    """On one machine Jackson's schedule, run tick by tick or not, equals the bound over all sets (Carlier 1982)."""
    bound = jackson_preemptive(jobs)
    assert bound == jackson_by_ticks(jobs) == head_work_tail(jobs) == by_formula(jobs)
    assert bound <= optimum(jobs)


@given(jobs=works, units=st.integers(1, 3))
def test_the_energy_bound_is_its_formula_and_below_the_optimum(jobs: list[Job], units: int) -> None:
    """With k units head_work_tail is the energy bound of high-level synthesis, and no schedule is shorter."""
    bound = head_work_tail(jobs, units)
    assert bound == by_formula(jobs, units)
    assert bound <= optimum(jobs, units)


@given(jobs=idle_too, units=st.integers(1, 3))
def test_bounds_hold_with_jobs_of_no_work(jobs: list[Job], units: int) -> None:
    """Jobs that take no time never lift a bound above the optimum."""
    assert jackson_preemptive(jobs) <= optimum(jobs)
    assert head_work_tail(jobs, units) <= optimum(jobs, units)


@given(
    jobs=st.lists(st.builds(Job, st.integers(0, 3), st.integers(0, 5), st.integers(0, 3)), max_size=12),
    units=st.integers(1, 3),
    data=st.data(),
)
def test_merging_equal_jobs_and_their_order_change_nothing(jobs: list[Job], units: int, data: st.DataObject) -> None:
    """Both bounds only add up work: jobs of equal head and tail may be one, in any order."""
    shuffled = data.draw(st.permutations(jobs))
    assert jackson_preemptive(merged(jobs)) == jackson_preemptive(shuffled) == jackson_preemptive(jobs)
    assert head_work_tail(merged(jobs), units) == head_work_tail(shuffled, units) == head_work_tail(jobs, units)


@given(data=st.data())
def test_no_list_schedule_beats_a_bound(data: st.DataObject) -> None:
    """Critical path, and the energy bound of each resource by its heads and tails, are met by every schedule."""
    graph = data.draw(random_graphs(nowhere=True))
    starts = list_schedule(graph).starts
    makespan = max(start + time for start, time in zip(starts, graph.durations, strict=True))
    assert critical_path(graph) <= makespan
    before, after = heads(graph), tails(graph)
    for resource, capacity in enumerate(graph.unit_counts):
        tasks = [task for task in range(len(graph)) if graph.resources[task] == resource]
        jobs = [Job(before[task], graph.durations[task], after[task]) for task in tasks]
        assert head_work_tail(jobs, capacity) <= makespan
        if capacity == 1:
            assert jackson_preemptive(jobs) <= makespan


def test_a_delivery_lengthens_the_critical_path() -> None:
    """The last result comes out 5 ticks after the end of its task; one inside the chain is no delivery but a lag."""
    edges = [arrow(0, 1, 2)]
    assert critical_path(TaskGraph([3, 4], [0, 0], [1], edges, deliveries=[2, 5])) == 3 + 2 + 4 + 5
    assert critical_path(TaskGraph([3, 4], [0, 0], [1], edges, deliveries=[9, 0])) == 12


@given(data=st.data())
def test_sharpened_heads_and_tails_hold_in_every_schedule(data: st.DataObject) -> None:
    """They lie between the plain ones and those of the best list schedule; so do the bounds made of them."""
    graph = data.draw(random_graphs(nowhere=True, shortest=1))
    before, after = sharpened(graph)
    assert all(plain <= sharp for plain, sharp in zip(heads(graph), before, strict=True))
    assert all(plain <= sharp for plain, sharp in zip(tails(graph), after, strict=True))
    for tie in ("input", "reverse", "random"):
        starts = list_schedule(graph, tie=tie).starts
        last = max(start + time for start, time in zip(starts, graph.durations, strict=True))
        assert all(head <= start for head, start in zip(before, starts, strict=True))
        ends = [start + time for start, time in zip(starts, graph.durations, strict=True)]
        assert all(end + tail <= last for end, tail in zip(ends, after, strict=True))
        assert energy(graph, before, after) <= last


amounts = st.integers(-(10**40), 10**40)  # beyond what floats can tell apart


parts = st.integers(1, 10**20)


@given(amount=amounts, divisor=parts)
def test_the_least_whole_number_that_is_no_less(amount: int, divisor: int) -> None:
    """It is the least q with q * divisor >= amount, of any size."""
    quotient = ceil_div(amount, divisor)
    assert quotient * divisor >= amount > (quotient - 1) * divisor


@given(amount=amounts, quantum=parts)
def test_the_least_multiple_that_is_no_less(amount: int, quantum: int) -> None:
    """A multiple, no less than the amount, by less than one quantum; a multiple is its own."""
    rounded = round_up(amount, quantum)
    assert rounded % quantum == 0
    assert 0 <= rounded - amount < quantum
    assert round_up(rounded, quantum) == rounded


JOBS = st.lists(st.builds(JobPiece, st.integers(0, 2), st.integers(0, 5)), max_size=5)


def by_every_order(first: list[JobPiece], second: list[JobPiece]) -> int:
    """The least length over all orders in which pieces may start, each as early as its job and its machine allow."""

    @cache
    def rest(i: int, j: int, ends: tuple[int, int], free: tuple[int, ...]) -> int:
        found = [max(ends)] if i == len(first) and j == len(second) else []
        for job, number, pieces in ((0, i, first), (1, j, second)):
            if number < len(pieces):
                machine, ticks = pieces[number]
                end = max(ends[job], free[machine]) + ticks
                now = (end, ends[1]) if job == 0 else (ends[0], end)
                after = tuple(end if one == machine else until for one, until in enumerate(free))
                found.append(rest(i + (job == 0), j + (job == 1), now, after))
        return min(found)

    return rest(0, 0, (0, 0), (0, 0, 0))


@given(JOBS, JOBS)
@example([JobPiece(1, 1), JobPiece(2, 0), JobPiece(1, 1), JobPiece(1, 0)], [JobPiece(2, 3)])
def test_least_length_is_that_of_the_best_interleaving(first: list[JobPiece], second: list[JobPiece]) -> None:
    """Of small chains all interleavings are tried; which job is first does not matter, nor do pieces of no length."""
    timed = [[piece for piece in job if piece.ticks] for job in (first, second)]
    assert least_length(first, second) == by_every_order(*timed) == least_length(second, first)
