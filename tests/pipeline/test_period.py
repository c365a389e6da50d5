"""The steady state: published patterns, and what must hold of any that is found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

import pipesched
from pipesched import Op, Schedule, schedule_plan
from pipesched.pipeline.plan.period import FEW, FEWEST, FEWEST_OF_CHUNKS, SteadyState, steady_state
from pipesched.pipeline.plan.plan import plan_from_slots
from tests.examples import examples

Slot = tuple[str, int, int, int, int, int]  # kind, stage, device, microbatch, start, end
ALGORITHMS = (
    "1f1b", "eager-1f1b", "interleaved", "interleaved-overlap", "gis-h", "zb-h1", "zb-v", "v-half", "dualpipe",
    "dualpipe-v", "chimera", "hanayo", "naive", "sequential", "list", "looped-bfs",
)  # fmt: skip


def scheduled(algorithm: str, **values: Any) -> Schedule:
    """A schedule of 8 devices and 48 microbatches, or of another problem."""
    problem = pipesched.make_problem(**{"devices": 8, "microbatches": 48, "forward": 5, "backward": 10, **values})
    return pipesched.run(problem, algorithm).schedule


def slots_of(schedule: Schedule) -> set[Slot]:
    """Every operation that runs, with its device and its times."""
    index, problem = schedule.plan.index, schedule.problem
    found = set()
    for number, (start, end) in enumerate(zip(schedule.start_ticks, schedule.end_ticks, strict=True)):
        op = index.op(number)
        if start >= 0:
            device = problem.settled_placement.device(op.stage, op.microbatch, problem.microbatches)
            found.add((op.kind, op.stage, device, op.microbatch, start, end))
    return found


def unfolded(slots: set[Slot], steady: SteadyState) -> set[Slot]:
    """The slots without all but the first of the whole periods, and then with copies of the first in their place."""
    first, last = steady.start + steady.ticks, steady.start + steady.repeats * steady.ticks
    period = {slot for slot in slots if steady.start <= slot[4] < first}
    copies = {
        (kind, stage, device, m + step * steady.microbatches, start + step * steady.ticks, end + step * steady.ticks)
        for kind, stage, device, m, start, end in period
        for step in range(1, steady.repeats)
    }
    return {slot for slot in slots if not first <= slot[4] < last} | copies


@pytest.mark.parametrize(
    ("algorithm", "stages", "expected"),
    [
        ("1f1b", 8, SteadyState(110, 720, 15, 1)),
        ("zb-h1", 8, SteadyState(105, 685, 15, 1)),
        ("interleaved", 16, SteadyState(200, 1280, 240, 8)),
        ("zb-v", 16, SteadyState(180, 1185, 30, 1)),
        ("dualpipe", 8, SteadyState(115, 610, 30, 1)),
        ("sequential", 8, SteadyState(0, 5760, 120, 1)),
        ("zb-h2", 8, SteadyState(175, 580, 15, 1)),
    ],
)
def test_the_steady_state_of_families(algorithm: str, stages: int, expected: SteadyState) -> None:
    """A period is a microbatch, or P of them where chunks take turns; it begins when the last device has warmed up."""
    assert steady_state(scheduled(algorithm, stages=stages)) == expected


@pytest.mark.parametrize("values", [{"microbatches": 1}, {"microbatches": 2}, {"forward": 0, "backward": 0}])
def test_few_microbatches_or_no_time_have_none(values: dict[str, Any]) -> None:
    """What does not come three times, or takes no time, is no steady state."""
    assert steady_state(scheduled("1f1b", **values)) is None


@examples(80)
@given(
    algorithm=st.sampled_from(ALGORITHMS),
    devices=st.sampled_from([2, 4]),
    chunks=st.sampled_from([1, 2]),
    microbatches=st.integers(3, 20).map(lambda half: 2 * half),
    forward=st.lists(st.integers(1, 4), min_size=8, max_size=8),
    backward=st.integers(1, 9),
    p2p=st.sampled_from([0, 0.5]),
)
def test_unfolding_gives_every_slot_again(
    algorithm: str, devices: int, chunks: int, microbatches: int, forward: list[int], backward: int, p2p: float
) -> None:
    """One period, copied as often as it repeats, stands for all slots that were left out, to the tick."""
    try:
        schedule = scheduled(
            algorithm, devices=devices, stages=devices * chunks, microbatches=microbatches,
            forward=forward[: devices * chunks], backward=backward, p2p=p2p,
        )  # fmt: skip
    except pipesched.NotApplicable:
        assume(False)
        return
    steady = steady_state(schedule)
    assume(steady is not None)
    assert steady is not None
    assert steady.repeats >= (FEWEST if schedule.problem.stages == devices else FEWEST_OF_CHUNKS)
    assert unfolded(slots_of(schedule), steady) == slots_of(schedule)


@pytest.mark.parametrize("algorithm", ["1f1b", "zb-h1", "dualpipe", "gis-h", "naive"])
def test_no_longer_stretch_is_steady(algorithm: str) -> None:
    """One start earlier, or one later, the pattern is another: the stretch cannot grow at either end."""
    schedule = scheduled(algorithm, stages=8)
    steady, slots = steady_state(schedule), slots_of(schedule)
    assert steady is not None
    later = {(*slot[:3], slot[3] + steady.microbatches, *(time + steady.ticks for time in slot[4:])) for slot in slots}

    def repeats(tick: int) -> bool:
        """Whether exactly what starts at that tick is what started a period before."""
        return {slot for slot in slots if slot[4] == tick} == {slot for slot in later if slot[4] == tick}

    before = [slot[4] for slot in slots if slot[4] < steady.start]
    assert not before or not repeats(max(before) + steady.ticks)
    assert not repeats(steady.end)


@examples(30)
@given(st.sampled_from(["1f1b", "zb-h1", "zb-v"]), st.integers(0, 3), st.floats(0.3, 0.7))
def test_few_slots_that_run_otherwise(algorithm: str, device: int, share: float) -> None:
    """Two slots that change places leave most of the timeline nearly steady; its first and last periods repeat."""
    whole = scheduled(algorithm, devices=4, stages=8 if algorithm == "zb-v" else 4, microbatches=64)
    orders = [list(whole.plan.slots(each)) for each in range(4)]
    place = int(share * len(orders[device]))
    one, other = orders[device][place : place + 2]
    assume(isinstance(one, Op) and isinstance(other, Op) and one.microbatch != other.microbatch)
    orders[device][place : place + 2] = [other, one]
    schedule = schedule_plan(whole.problem, plan_from_slots(orders, whole.problem.stages, 64))
    steady, slots = steady_state(schedule, nearly=True), slots_of(schedule)
    assert steady is not None
    assert 2 * (steady.end - steady.start) >= schedule.makespan_ticks
    assert steady.others <= len(slots) // FEW
    for begin in (steady.start, steady.end - 2 * steady.ticks):
        period = {slot for slot in slots if begin <= slot[4] < begin + steady.ticks}
        again = {
            (*slot[:3], slot[3] + steady.microbatches, *(time + steady.ticks for time in slot[4:])) for slot in period
        }
        assert again == {slot for slot in slots if begin + steady.ticks <= slot[4] < begin + 2 * steady.ticks}
    strict = steady_state(schedule)
    assert strict is None or (strict.others == 0 and strict.end - strict.start <= steady.end - steady.start)
