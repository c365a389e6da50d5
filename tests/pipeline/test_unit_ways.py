"""Residences and groups of units, and the jobs of a device in columns."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import example, given, strategies as st

from pipesched import make_problem, plan
from pipesched.core.arrays import column
from pipesched.core.bounds import Job, jackson_preemptive
from pipesched.pipeline.bounds.bounds import DeviceJobs
from pipesched.pipeline.bounds.memory import order_edges, residences
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import alike
from tests.oracle.drawn import PLACEMENTS, Config, configs, random_rows
from tests.oracle.setup import read_setup

shapes = st.tuples(st.booleans(), st.booleans())


few = shapes.flatmap(
    lambda cut: configs(PLACEMENTS, most_devices=3, most_microbatches=3, slices=cut[0], forward_only=cut[1])
)


@given(
    shapes.flatmap(lambda cut: configs(PLACEMENTS, least=1, slices=cut[0], forward_only=cut[1])),
    st.randoms(use_true_random=False),
    st.sampled_from([0, 1]),
)
def test_residences_are_what_a_schedule_holds(config: Config, random: Random, split: float) -> None:
    """At every time the residences on a device sum up to what its operations have taken and not given back."""
    problem = make_problem(**config)
    schedule = schedule_plan(problem, plan(problem, random_rows(read_setup(config), random, split=split)))
    starts, ends = schedule.start_ticks, schedule.end_ticks
    for device in range(problem.devices):
        stays = [
            (ends[stay.first] if stay.from_end else starts[stay.first], ends[stay.last], stay.size)
            for stay in residences(problem, schedule.plan.index, device)
        ]
        held = [sum(size for begin, end, size in stays if begin <= time < end) for time, _, _ in stays]
        assert max(held, default=0) == schedule.peak_grains[device]


@given(few)
@example({"devices": 2, "placement": "bidirectional", "speed": [1, 0.5], "p2p": 3})
@example({"devices": 3, "microbatches": 4, "placement": "linear", "forward": 10**12, "p2p": 1e-9})
def test_tables_have_a_column_a_unit(config: Config) -> None:
    """The mean unit and the largest microbatch are those of the columns; of one that all have, it is seen each time."""
    problem = make_problem(**config)
    ticks, grains, units = problem.ticks, problem.grains, problem.model.units
    for cost, rows in ticks.rows.items():
        table = ticks.each(cost)
        assert table.shape == (len(rows), units)
        mean = [(2 * sum(row) + units) // (2 * units) for row in table.tolist()]
        assert [*ticks.mean[cost]] == (mean if ticks.along is None else table[:, 0].tolist())
        assert not (problem.are_alike and units > 1 and table.strides[1])
    for name in grains.rows:
        sizes = grains.each(name).reshape(problem.stages, problem.microbatches, -1).sum(axis=2)
        assert [*grains.largest[name]] == sizes.max(axis=1).tolist()


def test_groups_that_are_alike() -> None:
    """Microbatches that equal each other in every factor and table are one group; those of either way are two."""
    sizes = {"work": [1, 2, 1, 2, 2, 1], "activation": [1, 1, 1, 1, 1, 2]}
    assert [*alike(make_problem(devices=2, sizes=sizes, placement="linear"))] == [[0, 2], [1, 3, 4], [5]]
    assert [*alike(make_problem(devices=2, sizes=sizes, placement="bidirectional"))] == [[0, 2], [1], [3, 4], [5]]
    table: Any = [[1, 1, 1, 3, 1, 1], 1]
    problem = make_problem(devices=2, sizes=sizes, activation=table, placement="linear")
    assert [*alike(problem)] == [[0, 2], [1, 4], [3], [5]]
    assert [*alike(make_problem(devices=2, microbatches=3, slices=2, placement="linear"))] == [range(3)]


def test_order_of_microbatches_that_are_alike() -> None:
    """Slice by slice, neighbours in one bundle, and others from one to the next."""
    problem = make_problem(devices=1, sizes={"work": [1, 1, 1, 2, 1]}, slices=2, placement="linear")
    index = OpIndex("FB", 1, 5, 2)
    edges = order_edges(problem, index, [index.row("B", 0)])
    first = index.row("B", 0)[0]
    pairs = [(before - first, after - first) for part in edges for before, after, _ in part]
    assert sorted(pairs) == [(0, 2), (1, 3), (2, 4), (3, 5), (4, 8), (5, 9)]


times = st.one_of(st.integers(0, 9), st.integers(0, 3))


some = st.lists(st.builds(Job, times, times, times), min_size=1, max_size=40)


@example([Job(0, 0, 0), Job(0, 0, 1)], 10**20)  # tails beyond 64 bits beside heads within
@given(some, st.sampled_from([1, 10**20]))
def test_fewer_jobs_take_as_long(jobs: list[Job], scale: int) -> None:
    """Jobs that become one, as all stretches without them are too short, leave Jackson's schedule as long as it is."""
    jobs = [Job(*(scale * ticks for ticks in job)) for job in jobs]
    few = DeviceJobs(*map(column, zip(*jobs, strict=True))).fewer()
    assert jackson_preemptive(few) == jackson_preemptive(jobs)
    assert len(few) <= len(jobs)


def test_many_jobs_become_few() -> None:
    """Of jobs that come and go one by one only those count alone that might begin or end the longest stretch."""
    jobs = [Job(number, 10, 1000 - number) for number in range(1000)]
    few = DeviceJobs(*map(column, zip(*jobs, strict=True))).fewer()
    assert jackson_preemptive(few) == jackson_preemptive(jobs)
    assert len(few) < 500


@given(some, some)
def test_jobs_may_be_joined(jobs: list[Job], more: list[Job]) -> None:
    """More jobs stand behind those of a device; the whole stretch is no longer than Jackson's schedule."""
    both = DeviceJobs(*map(column, zip(*jobs, strict=True))).with_more(more)
    assert both.listed() == [*jobs, *more]
    assert both.with_more([]) is both
    assert both.size == len(jobs) + len(more)
    assert both.work == sum(job.work for job in both.listed())
    assert sum(both.whole_stretch()) <= jackson_preemptive(both.listed())
