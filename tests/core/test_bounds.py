"""Lower bounds: their formulas, the true optimum by trying everything, and published instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import pytest
from hypothesis import given, strategies as st

from pipesched.core.bounds import Job, critical_path, energy, head_work_tail, jackson_preemptive, memory_area, sharpened
from pipesched.core.listsched import list_schedule
from pipesched.core.tasks import NOWHERE, TaskGraph, arrow
from pipesched.core.timing import heads, tails

Graphs = Callable[..., st.SearchStrategy[TaskGraph]]

# Carlier, The one-machine sequencing problem, EJOR 11 (1982): (head, work, tail). Schrage's rule 53, optimum 50.
CARLIER = [Job(*row) for row in [(10, 5, 7), (13, 6, 26), (11, 7, 24), (20, 4, 21), (30, 3, 8), (0, 6, 17), (30, 2, 0)]]

# Fisher and Thompson 1963, six jobs on six machines, (machine, ticks) in the order of each job. Optimum 55.
FT06 = [
    [(2, 1), (0, 3), (1, 6), (3, 7), (5, 3), (4, 6)],
    [(1, 8), (2, 5), (4, 10), (5, 10), (0, 10), (3, 4)],
    [(2, 5), (3, 4), (5, 8), (0, 9), (1, 1), (4, 7)],
    [(1, 5), (0, 5), (2, 5), (3, 3), (4, 8), (5, 9)],
    [(2, 9), (1, 3), (4, 5), (5, 4), (0, 3), (3, 1)],
    [(1, 3), (3, 3), (5, 9), (0, 10), (4, 4), (2, 1)],
]

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
    """On one machine Jackson's schedule, run tick by tick or not, equals the bound over all sets (Carlier 1982).

    No schedule of these jobs is shorter.
    """
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


def test_no_jobs_take_no_time() -> None:
    """Nothing to do is bounded by 0."""
    assert jackson_preemptive([]) == head_work_tail([]) == head_work_tail([], 3) == 0
    assert critical_path(TaskGraph([], [], [])) == 0


def test_jackson_interrupts_for_a_longer_tail() -> None:
    """By hand: 0-2 of the first job, then the urgent one 2-5 (+20), then the rest 5-13 (+1)."""
    assert jackson_preemptive([Job(0, 10, 1), Job(2, 3, 20)]) == 25
    assert jackson_preemptive([Job(0, 10, 13), Job(2, 3, 20)]) == 26
    assert jackson_preemptive([Job(7, 1, 0)]) == 8


def ft06() -> TaskGraph:
    durations = [ticks for job in FT06 for _, ticks in job]
    machines = [machine for job in FT06 for machine, _ in job]
    edges = [arrow(task, task + 1) for task in range(35) if task % 6 != 5]
    return TaskGraph(durations, machines, [1] * 6, edges)


def test_ft06_bounds_stay_below_the_known_optimum() -> None:
    """FT06 (optimum 55): its longest job is 47, its busiest machine 43 ticks, and no machine's bound exceeds 55."""
    graph = ft06()
    before, after = heads(graph), tails(graph)
    assert critical_path(graph) == 47
    bounds = []
    for machine in range(6):
        tasks = [task for task in range(36) if graph.resources[task] == machine]
        jobs = [Job(before[task], graph.durations[task], after[task]) for task in tasks]
        assert jackson_preemptive(jobs) == head_work_tail(jobs) >= sum(job.work for job in jobs)
        bounds.append(jackson_preemptive(jobs))
    assert 47 <= max(bounds) <= 55


def test_critical_path_by_hand() -> None:
    """The longest chain with its lags, wherever its tasks run, and a lone task that is longer than all chains."""
    edges = [arrow(0, 1, 2), arrow(1, 2), arrow(0, 2, 4)]
    assert critical_path(TaskGraph([3, 4, 1], [0, NOWHERE, 0], [1], edges)) == 10
    assert critical_path(TaskGraph([3, 4, 1, 11], [0, 0, 0, 1], [1, 1], edges)) == 11
    assert critical_path(TaskGraph([0, 0], [0, 0], [1], [arrow(0, 1)])) == 0


@given(data=st.data())
def test_no_list_schedule_beats_a_bound(graphs: Graphs, data: st.DataObject) -> None:
    """Critical path, and the energy bound of each resource by its heads and tails, are met by every schedule."""
    graph = data.draw(graphs(nowhere=True))
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


def test_pipeline_bound_is_met_by_1f1b(pipeline: Callable[..., TaskGraph]) -> None:
    """P=4, M=8, f=1, B=2: the last device has head 3 and tail 6 around 24 ticks of work: 33, what 1F1B takes.

    Device d has d before and 2d after 24 ticks of work; its backwards alone have 10 - 2d before and 2d after 16 ticks.
    """
    graph = pipeline(4, 8, 1, 2)
    before, after = heads(graph), tails(graph)
    bounds = []
    for device in range(4):
        tasks = [task for task in range(len(graph)) if graph.resources[task] == device]
        bounds.append(jackson_preemptive([Job(before[task], graph.durations[task], after[task]) for task in tasks]))
    assert bounds == [max(24 + 3 * device, 26) for device in range(4)] == [26, 27, 30, 33]


@pytest.mark.parametrize(
    ("area", "capacity", "head", "tail", "bound"),
    [(96, 4, 0, 0, 24), (96, 1, 0, 0, 96), (97, 4, 0, 0, 25), (10, 3, 2, 5, 11), (0, 3, 2, 5, 7)],
)
def test_memory_area_by_hand(area: int, capacity: int, head: int, tail: int, bound: int) -> None:
    """Little's law: head + area over capacity, rounded up, + tail.

    The first two rows are device 0 of P=4, M=8, f=1, B=2: 8 microbatches that stay 4 + 8 ticks each.
    """
    assert memory_area(area, capacity, head, tail) == bound


def test_memory_area_is_reached_by_one_microbatch_at_a_time(pipeline: Callable[..., TaskGraph]) -> None:
    """Under any cap on device 0 no list schedule is shorter than the area bound; with a cap of 1 it is exactly 96."""
    graph = pipeline(4, 8, 1, 2)
    for cap in range(1, 9):
        starts = list_schedule(graph, tie="dfs", capacities=[cap, None, None, None]).starts
        makespan = max(start + time for start, time in zip(starts, graph.durations, strict=True))
        assert makespan >= memory_area(8 * 12, cap, 0, 0)
        if cap == 1:
            assert makespan == 96


def test_a_delivery_lengthens_the_critical_path() -> None:
    """The last result comes out 5 ticks after the end of its task; one inside the chain is no delivery but a lag."""
    edges = [arrow(0, 1, 2)]
    assert critical_path(TaskGraph([3, 4], [0, 0], [1], edges, deliveries=[2, 5])) == 3 + 2 + 4 + 5
    assert critical_path(TaskGraph([3, 4], [0, 0], [1], edges, deliveries=[9, 0])) == 12


def test_energy_by_hand() -> None:
    """Four tasks of 2 ticks on two units before a chain of 3: the third and fourth of them end at 4 at best."""
    graph = TaskGraph([2, 2, 2, 2, 3], [0, 0, 0, 0, 1], [2, 1], [arrow(task, 4) for task in range(4)])
    assert critical_path(graph) == 5
    assert energy(graph, heads(graph), tails(graph)) == 7
    assert sharpened(graph)[0] == [0, 0, 0, 0, 4]


@given(data=st.data())
def test_sharpened_heads_and_tails_hold_in_every_schedule(graphs: Graphs, data: st.DataObject) -> None:
    """They lie between the plain ones and those of the best list schedule; so do the bounds made of them."""
    graph = data.draw(graphs(nowhere=True, shortest=1))
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
