"""Lower bounds: no schedule of the problem is shorter. Each is a function with its formula.

A `Job` is work on one resource with the time that must pass before it (head) and after it (tail). Jobs of equal head
and tail may be merged into one, since the bounds only add up work. `may_hold` says whether a few inequalities have a
point of whole numbers, exactly: dual simplex with Bland's rule in rationals (Bland 1977), then branching.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import accumulate
from math import gcd
from typing import NamedTuple

from pipesched.core.arrays import Ints, ceil_div, column, in_range, kernels_for, np, total
from pipesched.core.clock import check_deadline
from pipesched.core.tasks import NOWHERE, TaskGraph
from pipesched.core.timing import heads, topological_order


class Job(NamedTuple):
    """Work in ticks on one resource, `head` ticks after the start of the schedule and `tail` ticks before its end."""

    head: int
    work: int
    tail: int


def critical_path(graph: TaskGraph) -> int:
    """Return the longest chain of tasks in ticks: max over tasks of (ASAP start + duration + delivery)."""
    deliveries = graph.deliveries or [0] * len(graph)
    ends = zip(heads(graph), graph.durations, deliveries, strict=True)
    return max((start + time + delivery for start, time, delivery in ends), default=0)


def head_work_tail(jobs: Sequence[Job], units: int = 1) -> int:
    """Return max over (h, q) of h + ceil(sum of work of jobs with head >= h and tail >= q, over `units`) + q.

    Every pair of a head and a tail that occur is tried. With several units this is the energy bound of high-level
    synthesis. O(jobs x distinct tails).
    """
    return sum(longest_stretch(jobs, units))


def longest_stretch(jobs: Sequence[Job], units: int = 1) -> Job:
    """Return the head, the work and the tail of which `head_work_tail` is the sum."""
    best, parts = 0, Job(0, 0, 0)
    by_head = sorted(jobs, reverse=True)
    for tail in sorted({job.tail for job in by_head}):
        work = 0
        for job in by_head:
            if job.tail >= tail:
                work += job.work
                length = -(-work // units)  # rounded up; ceil_div would cost as much again
                if job.head + length + tail > best:
                    best, parts = job.head + length + tail, Job(job.head, length, tail)
    return parts


def jackson_preemptive(jobs: list[Job] | tuple[Ints, Ints, Ints]) -> int:
    """Return the length of Jackson's preemptive schedule: max over jobs of (end + tail), in ticks (Carlier 1982).

    At any time it runs the released job of the longest tail. A machine that may interrupt its jobs can do no better.
    O(n log n). Jobs may be given as columns too.
    """
    if not len(jobs):
        return 0
    check_deadline()
    head, work, tail = jobs if isinstance(jobs, tuple) else map(column, zip(*jobs, strict=True))
    longest = int(head.max()) + total(work) + int(tail.max())
    by_head = np.argsort(head, kind="stable")
    head, work, key = (in_range(values[by_head], longest) for values in (head, work, -tail))
    _, kernels, give = kernels_for(head, work, key)
    blank = [give(np.zeros(count, int)) for count in (len(head), 1, 1, len(head))]
    released = kernels.Heaps(*blank[:3], give(key), blank[3])
    return int(kernels.jackson(give(head), give(work), released))


def memory_area(area: int, capacity: int, head: int, tail: int) -> int:
    """Return head + ceil(area / capacity) + tail, in ticks: Little's law for memory.

    `area` is the sum over all that must reside in a pool of (size x shortest residence in ticks); nothing resides
    before `head` nor in the last `tail` ticks.
    """
    return head + ceil_div(area, capacity) + tail


def energy(graph: TaskGraph, before: Sequence[int], after: Sequence[int]) -> int:
    """Return the largest head_work_tail of a resource with all its units: the energy bound of high-level synthesis.

    `before` and `after` are the heads and tails of the tasks in ticks.
    """
    jobs: list[list[Job]] = [[] for _ in graph.unit_counts]
    for resource, job in zip(graph.resources, zip(before, graph.durations, after, strict=True), strict=True):
        if resource != NOWHERE:
            jobs[resource].append(Job(*job))
    return max(map(head_work_tail, jobs, graph.unit_counts), default=0)


def sharpened(graph: TaskGraph) -> tuple[list[int], list[int]]:
    """Return heads and tails, in ticks, that count the resources: what a task waits for shares their units.

    The head of a task is the energy bound of the tasks before it, from their own sharpened heads; likewise tails
    (Langevin and Cerny 1996). O(n) energy bounds.
    """
    order = topological_order(graph)
    released = [0] * len(graph)
    delivered = list(graph.deliveries) or released
    before = _sharpened(graph, order, graph.predecessors, released)
    return before, _sharpened(graph, order[::-1], graph.successors, delivered)


def _sharpened(
    graph: TaskGraph, order: Sequence[int], arrows: Sequence[Sequence[tuple[int, int]]], least: Sequence[int]
) -> list[int]:
    """Return the sharpened heads along `arrows`, which lead from a task back to those before it in `order`."""
    head = list(least)
    position = {task: number for number, task in enumerate(order)}
    for task in order:
        jobs: list[list[Job]] = [[] for _ in graph.unit_counts]
        # every task before it, and the ticks between the end of that and its start by the longest path
        gaps, coming = {task: -graph.durations[task]}, [(-position[task], task)]
        while coming:
            _, here = heappop(coming)
            for before, lag in arrows[here]:
                if before not in gaps:
                    heappush(coming, (-position[before], before))
                gaps[before] = max(gaps.get(before, 0), gaps[here] + graph.durations[here] + lag)
        del gaps[task]
        for before, gap in gaps.items():
            head[task] = max(head[task], head[before] + graph.durations[before] + gap)
            if graph.resources[before] != NOWHERE:
                jobs[graph.resources[before]].append(Job(head[before], graph.durations[before], gap))
        head[task] = max(head[task], *map(head_work_tail, jobs, graph.unit_counts), 0)
    return head


class JobPiece(NamedTuple):
    """A piece of a job: the machine that it occupies, and for how many ticks."""

    machine: int
    ticks: int


def least_length(first: Sequence[JobPiece], second: Sequence[JobPiece]) -> int:
    """Return the least ticks in which two jobs end that both start at 0; exact.

    The pieces of a job run in order, none is interrupted, and a machine runs one at a time. Pieces of no length are
    left out. Akers 1956, "A graphical approach to production scheduling problems", Operations Research 4: a point of
    the plane is how far both jobs are, a schedule a path on which one of them goes on or both, and two pieces of one
    machine are an obstacle. Both jobs go on until there is one; then either piece goes first, which leads to a corner
    of the obstacle, where a piece of each has just ended.
    """
    ones, twos = ([piece for piece in job if piece.ticks] for job in (first, second))
    one, two = ([*accumulate((piece.ticks for piece in job), initial=0)] for job in (ones, twos))
    best = one[-1] + two[-1]
    spent = [[best] * len(two) for _ in one]  # until so many pieces of each are done
    spent[0][0] = 0
    for i, row in enumerate(spent):
        for j, now in enumerate(row):
            straight = now + max(one[-1] - one[i], two[-1] - two[j])
            if straight >= best:
                continue
            # the first pieces of one machine that meet when both jobs go on; all pieces of one that ends before
            k, m, ahead = i, j, two[j] - one[i]
            while k < len(ones) and m < len(twos) and ones[k].machine != twos[m].machine:
                until, other = one[k + 1] + ahead, two[m + 1]
                k, m = k + (until <= other), m + (other <= until)
            if k == len(ones) or m == len(twos):
                best = straight
                continue
            first_waits = now + max(one[k] - one[i], two[m + 1] - two[j])
            second_waits = now + max(one[k + 1] - one[i], two[m] - two[j])
            spent[k][m + 1] = min(spent[k][m + 1], first_waits)
            spent[k + 1][m] = min(spent[k + 1][m], second_waits)
    return best


MOST_NODES, FEWEST_NODES = 200, 4  # systems that are solved before the answer is left open
MOST_ENTRIES = 20_000  # of all these systems together
LIMIT, SCALE = -2, -1  # the last two entries of a row


def may_hold(rows: Sequence[Sequence[int]], limits: Sequence[int]) -> bool:
    """Return False if no whole numbers x >= 0 keep every row (the sum of row[j] x[j] is at most its limit).

    True says that there are such numbers, or that branching was given up before that could be told.
    """
    if all(limit >= 0 for limit in limits):
        return True  # x = 0
    waiting: list[tuple[list[list[int]], list[int]]] = [([*map(list, rows)], list(limits))]
    nodes = MOST_ENTRIES // (len(rows) * len(rows[0]))
    for _ in range(min(max(nodes, FEWEST_NODES), MOST_NODES)):
        if not waiting:
            return False
        check_deadline()
        system, most = waiting.pop()
        point = _point(system, most)
        if point is None:
            continue
        broken = next((number for number, (value, scale) in enumerate(point) if value % scale), None)
        if broken is None:
            return True
        below = point[broken][0] // point[broken][1]
        unit = [int(number == broken) for number in range(len(point))]
        waiting.append(([*system, unit], [*most, below]))
        waiting.append(([*system, [-one for one in unit]], [*most, -below - 1]))
    return True


def _point(rows: Sequence[Sequence[int]], limits: Sequence[int]) -> list[tuple[int, int]] | None:
    """Return a rational point x >= 0 that keeps every row, as numbers and their scales; None if there is none."""
    count = len(rows[0])
    table = [[*row, limit, 1] for row, limit in zip(rows, limits, strict=True)]
    outside, inside = list(range(count)), list(range(count, count + len(rows)))  # variables at 0, and the others
    while True:
        below = (number for number, row in enumerate(table) if row[LIMIT] < 0)
        leaving = min(below, key=inside.__getitem__, default=None)
        if leaving is None:
            known = {variable: (row[LIMIT], row[SCALE]) for variable, row in zip(inside, table, strict=True)}
            return [known.get(variable, (0, 1)) for variable in range(count)]
        negative = (column for column in range(count) if table[leaving][column] < 0)
        entering = min(negative, key=outside.__getitem__, default=None)
        if entering is None:
            return None
        _pivot(table, leaving, entering)
        outside[entering], inside[leaving] = inside[leaving], outside[entering]


def _pivot(table: list[list[int]], leaving: int, entering: int) -> None:
    """Exchange the variable of a row with that of a column, where the row has an entry below 0."""
    # a row says that scale x its variable is the limit less the sum of entry x variable; the scale is above 0
    row = table[leaving]
    scale, added = -row[entering], -row[SCALE]
    new = [-entry for entry in row]
    new[entering], new[SCALE] = added, scale
    for number, other in enumerate(table):
        part = other[entering]
        if number == leaving or not part:
            continue
        other[entering] = 0
        size = other[SCALE] * scale
        changed = [entry * scale - part * mine for entry, mine in zip(other, new, strict=True)]
        changed[SCALE] = size
        common = gcd(*changed)
        table[number] = [entry // common for entry in changed]
    table[leaving] = new
