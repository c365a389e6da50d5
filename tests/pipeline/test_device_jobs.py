"""Jobs of a device in columns: what Jackson's schedule and the longest stretch of them are."""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from pipesched.core.arrays import column
from pipesched.core.bounds import Job, jackson_preemptive
from pipesched.pipeline.bounds import DeviceJobs

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
