"""Memory over time, and the sweep that finds its peaks."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pipesched import NoSchedule
from pipesched.core import arrays, kernels, timing
from pipesched.core.arrays import compiled_kernels, kernels_for
from pipesched.core.kernels import NONE
from pipesched.core.listsched import PRIORITIES, TIES, PoolLimits, list_schedule
from pipesched.core.tasks import Edges, TaskGraph, arrow, violations
from pipesched.core.timing import CaseSweep, earliest_times
from tests.core.graphs import random_jobs


def safe_pools(graph: TaskGraph, capacities: Sequence[int | None], owners: Sequence[int] = ()) -> Any:
    """Pools of the banker; without owners those in which a task fits when what it takes is free."""
    _, kernels, give = kernels_for()
    return kernels.MemoryPools(*map(give, PoolLimits(graph, capacities).pools(owners)))


def two_steps_each(jobs: int) -> TaskGraph:
    """Each job takes 1, takes 1 more and gives 2 back, on one machine; job j is tasks 3j .. 3j+2."""
    edges = [arrow(task, task + 1) for task in range(3 * jobs) if task % 3 < 2]
    size = 3 * jobs
    return TaskGraph([1] * size, [0] * size, [1], edges, [1, 1, 0] * jobs, [0, 0, 2] * jobs, [0] * size)


def test_the_banker_refuses_what_could_wedge() -> None:
    """Two jobs of 1 + 1 in a pool of 2: once one has its first half, the other may not take the last room."""
    graph = two_steps_each(2)
    for first, second in ((0, 3), (3, 0)):
        safe, greedy = safe_pools(graph, [2], [0, 0, 0, 1, 1, 1]), safe_pools(graph, [2])
        for memory in (safe, greedy):
            memory.start(first)
            assert memory.end(first) == NONE
            assert memory.fits(first + 1)
        assert greedy.fits(second)
        assert not safe.fits(second)
        assert safe.leader() == first // 3
        safe.start(first + 1)
        assert safe.end(first + 1) == NONE
        assert not safe.fits(second)
        safe.start(first + 2)
        assert safe.end(first + 2) == 0
        assert safe.fits(second)


@pytest.mark.parametrize("pools", [1, 3])
@given(data=st.data())
def test_the_banker_never_gets_stuck(pools: int, data: st.DataObject) -> None:
    """Jobs that each fit alone, stepped in any order that the banker allows, all finish, and no cap is passed."""
    graph, capacities, owners = data.draw(random_jobs(pools=pools))
    memory = safe_pools(graph, capacities, owners)
    rest = {job: [task for task in range(len(graph)) if owners[task] == job] for job in set(owners)}
    while any(rest.values()):
        willing = [job for job, tasks in rest.items() if tasks and memory.fits(tasks[0])]
        assert memory.leader() in willing, f"job {memory.leader()} leads and cannot go on"
        task = rest[data.draw(st.sampled_from(willing))].pop(0)
        memory.start(task)
        assert all(used <= cap for used, cap in zip(memory.used, capacities, strict=True))
        memory.end(task)


@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize(("pools", "resources"), [(1, 1), (1, 3), (2, 2), (2, 4)])
@given(data=st.data())
def test_jobs_that_fit_one_by_one_are_always_scheduled(
    pools: int, resources: int, chained: bool, data: st.DataObject
) -> None:
    """With owners, capacities that hold the largest job alone are enough for every rule, and are obeyed."""
    graph, capacities, owners = data.draw(random_jobs(pools=pools, resources=resources, chained=chained))
    priority, tie = data.draw(st.sampled_from(sorted(PRIORITIES))), data.draw(st.sampled_from(sorted(TIES)))
    found = list_schedule(graph, priority=priority, tie=tie, capacities=capacities, owners=owners)
    assert list(violations(graph, found.starts, capacities)) == []


@given(data=st.data())
def test_a_cap_below_one_job_is_no_schedule(data: st.DataObject) -> None:
    """A pool that is one too small for what some job must hold at once: NoSchedule, with owners and without."""
    graph, _, owners = data.draw(random_jobs(pools=2))
    used = [[0, 0] for _ in set(owners)]
    peak = [0, 0]
    for task, job in enumerate(owners):  # a chain: one task after the other
        pool = graph.pools[task]
        used[job][pool] += graph.takes[task]
        peak[pool] = max(peak[pool], used[job][pool])
        used[job][pool] -= graph.gives[task]
    small = data.draw(st.sampled_from([pool for pool in (0, 1) if peak[pool]]))
    lowered = [peak[pool] - 1 if pool == small else None for pool in (0, 1)]
    for who in ((), owners):
        with pytest.raises(NoSchedule):
            list_schedule(graph, tie=data.draw(st.sampled_from(sorted(TIES))), capacities=lowered, owners=who)


def test_without_owners_a_greedy_choice_can_wedge() -> None:
    """What owners are for: bfs begins both jobs and fills the pool; with owners the same rule finds a schedule."""
    graph = two_steps_each(2)
    with pytest.raises(NoSchedule):
        list_schedule(graph, tie="bfs", capacities=[2])
    found = list_schedule(graph, tie="bfs", capacities=[2], owners=[0, 0, 0, 1, 1, 1])
    assert list(violations(graph, found.starts, [2])) == []


def test_owners_change_nothing_while_greed_works() -> None:
    """The banker is asked only when the plain choice has wedged."""
    graph, owners = two_steps_each(3), [0, 0, 0, 1, 1, 1, 2, 2, 2]
    for tie in ("dfs", "input", "reverse"):
        greedy = list_schedule(graph, tie=tie, capacities=[2])
        assert list_schedule(graph, tie=tie, capacities=[2], owners=owners) == greedy


def test_no_schedule_names_a_task_that_is_really_out_of_room() -> None:
    """The task that never fits takes memory and has nothing else to wait for; the device is its pool."""
    # 1 takes pool 1; 2 wants to take it too; 0 takes pool 0 and only waits for 2.
    graph = TaskGraph([1] * 3, [0, 1, 1], [1, 1], [arrow(1, 2), arrow(2, 0)], [1, 1, 1], [1, 0, 2], [0, 1, 1])
    with pytest.raises(NoSchedule, match="task 2 never fits") as caught:
        list_schedule(graph, capacities=[1, 1])
    assert caught.value.device == 1


# Many cases at once: each takes what a replay of its own says; and which form of the kernels runs.

CASES = 3


FORMS: list[Any] = [None, kernels, *([compiled_kernels()] if compiled_kernels() else [])]  # None: level by level


def drawn(random: Random) -> tuple[TaskGraph, list[list[int]]]:
    """Tasks, of which some stand nowhere, in orders that can run with edges from earlier tasks to later ones."""
    count, machines = random.randint(1, 12), random.randint(1, 4)
    orders: list[list[int]] = [[] for _ in range(machines)]
    names = random.sample(range(count), count)
    standing = names[: random.randint(1, count)]
    for task in standing:
        random.choice(orders).append(task)
    pairs = [sorted(random.sample(range(len(standing)), 2)) for _ in range(random.randint(0, 2 * len(standing) - 2))]
    lags = [random.choice([0, 0, 3]) for _ in pairs]
    edges = Edges([standing[a] for a, _ in pairs], [standing[b] for _, b in pairs], lags)
    absent = Edges(names[len(standing) :], [standing[0]] * (count - len(standing)))
    return TaskGraph([random.randint(0, 5) for _ in range(count)], [0] * count, (1,), [edges, absent]), orders


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [np.int64, np.float64, object])
@given(random=st.randoms(use_true_random=False))
def test_each_case_is_a_replay(form: Any, kind: Any, random: Random) -> None:
    """In a table of all ends, and in few vectors part by part."""
    graph, orders = drawn(random)
    swept = CaseSweep(len(graph), orders, graph.edges)
    edges = graph.edges.where(np.isin(graph.edges.before, [task for order in orders for task in order]))
    lag = np.array([0 if edge < 0 else int(graph.edges.lag[edge]) for edge in swept.edges.tolist()], dtype=kind)
    lengths = np.array([[random.randint(0, 9) for _ in range(CASES)] for _ in swept.tasks], dtype=kind)
    lasts = np.array([rows[-1] for rows in swept.rows if len(rows)])
    vector, count = swept.vectors(lasts)
    ends = np.zeros((count, CASES), dtype=kind)
    delays = np.repeat(lag[:, None], CASES, axis=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "compiled_kernels", lambda: form)
        whole = swept.ends(lengths, delays)
        step = random.randint(1, 4)
        for begin in range(0, len(swept), step):
            swept.advance(begin, lengths[begin : begin + step], ends, vector, lag)
    for case in range(CASES):
        durations = [0] * len(graph)
        for task, length in zip(swept.tasks.tolist(), lengths[:, case].tolist(), strict=True):
            durations[task] = int(length)
        times = earliest_times(graph.changed(durations=durations, edges=edges), orders)
        assert [times.ends[task] for task in swept.tasks.tolist()] == whole[:, case].tolist()
    assert (ends[vector[lasts]] == whole[lasts]).all()
    assert swept.longest(whole.astype(np.int64), delays.astype(np.int64)).sum() >= CASES


def test_a_longest_path() -> None:
    """It goes back over the first of the waits that are as late, and over delays; nothing else is marked."""
    edges = Edges([0, 1, 0], [2, 2, 3])
    swept = CaseSweep(4, [[0], [1], [2], [3]], edges)
    lengths = np.array([[4, 1], [4, 5], [2, 2], [3, 3]])[swept.tasks]
    ends = swept.ends(lengths)
    found = swept.longest(ends)[np.argsort(swept.tasks)]
    assert found.T.tolist() == [[1, 0, 0, 1], [0, 1, 1, 0]]
    delays = np.zeros((3, 2), dtype=np.int64)
    delays[swept.edges == 0] = 9
    delayed = swept.longest(swept.ends(lengths, delays), delays)[np.argsort(swept.tasks)]
    assert delayed.T.tolist() == [[1, 0, 1, 0]] * 2


def test_few_vectors() -> None:
    """A chain needs two: what is read is written again, but no row writes over what it waits for."""
    swept = CaseSweep(9, [range(9)], Edges((), ()))
    assert swept.vectors(np.array([8]))[1] == 2
    assert swept.vectors(np.arange(9))[1] == 9


needs_compiled = pytest.mark.skipif(arrays.form_of_kernels() == "plain Python", reason="no kernels are compiled here")


@needs_compiled
def test_what_is_compiled_is_of_this_source() -> None:
    """After an edit of a kernel, `python setup.py build_ext --inplace` compiles it; until then plain Python runs."""
    assert arrays.form_of_kernels() == "compiled"


@needs_compiled
def test_stale_kernels_do_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled file of another source is left alone, and people are told."""
    monkeypatch.setattr(arrays, "crc32", {}.get)
    assert arrays._found.__wrapped__() == (None, None, None, "plain Python, because the compiled ones are stale")
