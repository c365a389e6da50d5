"""Periodic schedules: what is found repeats within the budget, and what is refuted is impossible."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from pipesched import Problem, make_problem, solve
from pipesched.core.cpsat import Limits
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.pipeline.check.check import violations
from pipesched.solver.periodic.beam import BlockOperations, DownAndUp
from pipesched.solver.periodic.search import PeriodicSchedule, PeriodModel, PeriodSearch, Seeker, other_orders, unrolled
from pipesched.solver.recompute_offload import PlainVariant
from tests.examples import examples, part
from tests.solver.periodic.problems import PLACEMENTS, tight
from tests.strategies import problems, with_capacities

pytestmark = pytest.mark.slow

LATENT: dict[str, Any] = {"devices": 4, "stages": 8, "placement": "v", "forward": 5, "backward": 10, "p2p": 1}


def found_by(case: PlainVariant, rounds: int = 1) -> list[PeriodicSchedule]:
    search = PeriodSearch(case, Limits())
    return [found for _ in range(rounds) for found in search.round()]


def repeats(case: PlainVariant, found: PeriodicSchedule, microbatches: int) -> None:
    """Assert, from the definitions alone, that a block repeats: dependencies, devices, memory."""
    long = PlainVariant(replace(case.problem, microbatches=microbatches))
    graph, block = long.graph, BlockOperations(long, found.microbatches)
    starts = block.repeated(found.starts, found.period)
    ends = [start + time for start, time in zip(starts, graph.durations, strict=True)]
    for before, after, lag in graph.edges:
        assert starts[after] >= ends[before] + lag
    for device, capacity in enumerate(case.problem.capacity_grains):
        tasks = sorted(
            (task for task, there in enumerate(graph.resources) if there == device and graph.durations[task]),
            key=starts.__getitem__,
        )
        assert all(ends[one] <= starts[other] for one, other in pairwise(tasks))
        changes = [(ends[task], 0, -graph.gives[task]) for task in tasks]
        changes += [(starts[task], 1, graph.takes[task]) for task in tasks]
        level = 0
        for _, _, change in sorted(changes):
            level += change
            assert capacity is None or level <= capacity


@given(tight(most_devices=3, most_microbatches=6, most_chunks=2, least=1), st.integers(0, 3))
@part(2)
def test_what_is_found_repeats(problem: Problem, more: int) -> None:
    """Every block that is found may run as often as one likes, on any placement, uneven, with latency and a budget."""
    case = PlainVariant(replace(problem, microbatches=problem.microbatches + more))
    for found in found_by(case):
        repeats(case, found, 5 * found.microbatches)


@given(tight(most_devices=4, most_microbatches=6, most_chunks=2))
@part(2)
def test_what_is_unrolled_is_a_schedule(problem: Problem) -> None:
    """From every block come schedules of all microbatches that keep every rule; the last is the shortest."""
    case = PlainVariant(problem)
    search = PeriodSearch(case, Limits())
    for found in search.round():
        block = search.seeker(found.microbatches).block
        values = []
        for schedule in unrolled(case, block, found):
            assert not list(violations(schedule))
            values.append(schedule.makespan_ticks)
        assert values
        assert sorted(values[1:], reverse=True) == values[1:]


def least_period(case: PlainVariant, most: int) -> int | None:
    """Return the least period of one microbatch, by trying all phases."""
    block = BlockOperations(case, 1)
    for period in range(1, most + 1):
        if any(block_fits(block, phases, period) for phases in product(range(period), repeat=len(block))):
            return period
    return None


def block_fits(block: BlockOperations, phases: Sequence[int], period: int) -> bool:
    """Return whether operations with these phases fit their devices and memory, moment by moment."""
    starts = block.starts(np.array([phases]), period)[0].tolist()
    graph = block.single.graph
    for device, capacity in enumerate(block.capacities):
        tasks = block.on(device)
        taken = [(phases[task] + step) % period for task in tasks for step in range(block.durations[task])]
        if len(taken) > len(set(taken)):
            return False
        span = max(starts) + max(block.durations)
        for moment in range(period):
            held = 0
            for copy in range(-span // period - 2, 2):
                for task in tasks:
                    start = starts[task] + copy * period
                    held += graph.takes[task] * (start <= moment)
                    held -= graph.gives[task] * (start + block.durations[task] <= moment)
            if capacity is not None and held > capacity:
                return False
    return True


@given(problems(PLACEMENTS, most_devices=2, most_microbatches=3, most_chunks=1, least=1, split=False), st.randoms())
@examples(30)
@pytest.mark.slow
def test_equal_to_brute_force(problem: Problem, random: Any) -> None:
    """The model says yes from the least period on, as trying all phases does, and no below; no bound is above it."""
    durations = [random.randint(1, 2) for _ in range(2 * problem.stages)]
    problem = make_problem(
        devices=problem.devices, stages=problem.stages, microbatches=4,
        placement=list(problem.settled_placement.devices),
        forward=durations[: problem.stages], backward=durations[problem.stages :],
        p2p=random.randint(0, 1), activation=1,
    )  # fmt: skip
    assume(problem.stages <= 2)
    capacities = [least_capacity(problem, device) + random.randint(0, 1) for device in range(problem.devices)]
    case = PlainVariant(with_capacities(problem, capacities))
    most = sum(durations) + 4
    least = least_period(case, most)
    assert least is not None
    block = BlockOperations(case, 1)
    assert block.least_period <= least
    answers = [PeriodModel(block, period).solve(Limits(20, workers=1)).status for period in range(1, least + 2)]
    assert answers == ["infeasible"] * (least - 1) + ["optimal"] * 2
    found = found_by(case)
    assert found
    assert min(each.period for each in found if each.microbatches == 1) >= least


def test_the_period_of_a_known_case() -> None:
    """On a V of four devices without a budget the work of a device is the period; with one of 3 it is longer."""
    wide = PlainVariant(make_problem(**LATENT, microbatches=32, activation=0.5, budget=4))
    assert min(found.period / found.microbatches for found in found_by(wide, 2)) <= 32
    narrow = BlockOperations(PlainVariant(make_problem(**LATENT, microbatches=32, activation=0.5, budget=2)), 1)
    assert PeriodModel(narrow, 31).solve(Limits(30, workers=1)).status == "infeasible"


@pytest.mark.nightly
def test_shorter_than_list_schedules() -> None:
    """With latency and a tight budget on a V, the blocks of the first round end before all that the portfolio finds."""
    values = {**LATENT, "devices": 8, "stages": 16, "microbatches": 48, "budget": 5}
    search = PeriodSearch(PlainVariant(make_problem(**values)), Limits())
    rows = (unrolled(search.variant, search.seeker(found.microbatches).block, found) for found in search.round())
    assert min(one.makespan for row in rows for one in row if one.fits) < 0.97 * 2198  # which the portfolio finds


def test_the_model_does_not_grow_with_microbatches() -> None:
    """The operations of a block are those of its microbatches, however many there are in all."""
    sizes = [len(BlockOperations(PlainVariant(make_problem(**LATENT, microbatches=count)), 2)) for count in (8, 1024)]
    assert sizes == [32, 32]


def test_a_period_that_is_refuted_is_not_tried() -> None:
    """Below the work of the busiest device nothing is searched."""
    case = PlainVariant(make_problem(**LATENT, microbatches=16))
    seeker = Seeker(case, 1, np.random.default_rng(0))
    assert seeker.least == 30
    assert seeker.seek(29, 5) is None
    assert seeker.runs == 0


@pytest.mark.nightly
def test_exchanged_devices_repeat_sooner() -> None:
    """With devices exchanged a microbatch repeats after 32, on a V after 34; a placement that is given stays."""
    values = {**LATENT, "devices": 8, "stages": 16, "microbatches": 16, "activation": 0.5, "budget": 6}
    best = next(other_orders(PlainVariant(make_problem(**values)), 32, Limits()))
    repeats(PlainVariant(best.variant.problem), best.best or pytest.fail("none"), 12)
    problems = (make_problem(**values | {"placement": placement}) for placement in ("v", None))
    assert operator.gt(*(solve(problem, method="periodic", time_limit=20).schedule.makespan for problem in problems))


# Periods on a V, decided by trying all phases: the same answers as the exact model.

ON_V: dict[str, Any] = {"stages": 8, "placement": "v", "forward": 5, "backward": 10, "p2p": 1, "microbatches": 32}


@st.composite
def on_a_v(draw: st.DrawFn) -> Problem:
    """A problem on a V whose stages, sizes and budgets differ."""
    devices = draw(st.integers(2, 4))
    times = st.lists(st.integers(1, 2), min_size=2 * devices, max_size=2 * devices)
    problem = make_problem(
        devices=devices, stages=2 * devices, microbatches=8, placement="v", forward=draw(times), backward=draw(times),
        p2p=draw(st.integers(0, 2)), activation=draw(times),
    )  # fmt: skip
    floors = [least_capacity(problem, device) for device in range(devices)]
    return with_capacities(problem, [floor + draw(st.integers(0, floor)) for floor in floors])


@given(on_a_v())
@examples(40)
def test_equal_to_the_model(problem: Problem) -> None:
    """From the least period that is possible down to one, it says what CP-SAT says; phases that it finds repeat."""
    case = PlainVariant(problem)
    block = BlockOperations(case, 1)
    for period in range(block.least_period, block.least_period + 8):
        if DownAndUp(block).states(period) > 2_500:
            return
        phases = DownAndUp(block).phases(period)
        assert PeriodModel(block, period).solve(Limits(60, workers=1)).status == ("optimal" if phases else "infeasible")
        if phases:
            starts = block.starts(np.array([phases]), period)[0].tolist()
            repeats(case, PeriodicSchedule(starts, period, 1), 12)
            return


def test_without_a_budget() -> None:
    """Without limits the work of a device is the least period, however many periods a microbatch takes."""
    values = {**ON_V, "devices": 6, "stages": 12, "p2p": 101, "microbatches": 4}
    block = BlockOperations(PlainVariant(make_problem(**values)), 1)
    assert DownAndUp(block).phases(30) is not None


def test_too_short_for_the_work() -> None:
    """Below the work of a device there are no phases at all."""
    block = BlockOperations(PlainVariant(make_problem(**ON_V, devices=4, budget=3)), 1)
    assert DownAndUp(block).phases(29) is None
    assert DownAndUp(block).states(29) == 0
    assert DownAndUp(block).states(31) == len(DownAndUp(block)._choices(DownAndUp(block).way[0], 31)) == 744


def test_where_it_does_not_apply() -> None:
    """On other placements, with a split backward, and where an operation takes no time, CP-SAT is asked."""
    for own in ({"placement": "loop"}, {"backward_input": 5, "backward_weight": 5, "backward": None}, {"backward": 0}):
        problem = make_problem(**{**ON_V, "devices": 4, "budget": 3, **own})
        assert not DownAndUp.applies(BlockOperations(PlainVariant(problem), 1))
