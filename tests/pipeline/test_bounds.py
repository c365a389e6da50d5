"""Lower bounds beside published values and all orders; residences, and what a budget says of order."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import assume, example, given, strategies as st

from pipesched import Bound, NoSchedule, Plan, Problem, Schedule, make_problem, plan, run, schedule_plan
from pipesched.core.arrays import column
from pipesched.core.bounds import Job, jackson_preemptive
from pipesched.pipeline.bounds.bounds import DeviceJobs, lower_bound, problem_bounds
from pipesched.pipeline.bounds.memory import (
    capacity_edges,
    least_capacity,
    require_least_capacity,
    residences,
    says_all,
)
from pipesched.pipeline.problem.kinds import MemorySavings
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import alike
from pipesched.solver.model import sorted_rows
from pipesched.solver.recompute_offload import PlainVariant
from tests.examples import examples
from tests.oracle.alike import optimum
from tests.oracle.drawn import PLACEMENTS, Config, configs, random_rows
from tests.oracle.setup import read_setup
from tests.strategies import SETTLED, plan_of, problems, random_plan, with_capacities

randoms = st.randoms(use_true_random=False)
tiny = problems(SETTLED, most_devices=2, most_microbatches=3, most_chunks=2, overlap=True, unlike=True)


def bound_of(problem: Problem, plan: Plan) -> int:
    """The bound that applies to the schedule of a plan."""
    return lower_bound(schedule_plan(problem, plan)).ticks


H11: dict[str, Any] = {
    "devices": 8, "microbatches": 32, "forward": 12, "backward_input": 13, "backward_weight": 9, "p2p": 1,
    "budget": 5, "placement": "linear",
}  # fmt: skip


def test_memory_area_by_hand() -> None:
    """Case h11: 32 residences of (8 F + 8 I + 14 hops) 214 and W 9, in room for 5: 1428 (its optimum: 1648)."""
    problem = make_problem(**H11)
    assert Bound(1428, "memory area of device 0") in problem_bounds(problem, "FIW", paired=False)


def test_memory_area_with_recomputation_by_hand() -> None:
    """Half of an activation for 2 F + 2 B, 12, the other half for F, R and B, 8, or for 12 too if R takes longer."""
    sizes: dict[str, Any] = {"devices": 2, "microbatches": 3, "placement": "linear", "activation": 1, "budget": 1}
    for recompute, area in ((2, 3 * 10), (6, 3 * 12)):
        saved: dict[str, Any] = {"recompute": recompute, "checkpoint": Decimal("0.5")}
        problem = make_problem(**sizes, forward=2, backward=4, **saved)
        assert Bound(area, "memory area of device 0") in problem_bounds(problem, "FBR", paired=False)


def test_a_bound_is_rounded_up_to_a_sum_of_costs() -> None:
    """Three activations for 2 F + 2 I, 12, and 0.7 of each for W, 2, take 40.2 of room 1; costs are even, so 42."""
    part = Decimal("0.7")
    costs: dict[str, Any] = {"forward": 2, "backward_input": 4, "backward_weight": 2, "retain": part}
    sizes: dict[str, Any] = {"devices": 2, "microbatches": 3, "placement": "linear"}
    problem = make_problem(**sizes, **costs, activation=[1, part], budget=1)
    assert Bound(41, "memory area of device 0") in problem_bounds(problem, "FIW", paired=False)
    outcome = run(problem, "list")
    assert outcome.bound == Bound(42, "memory area of device 0")
    assert outcome.schedule.makespan_ticks == 42


def test_residences_by_hand() -> None:
    """The same case: of 32 stays of 214 + 9 in 5 slots two slots run 7, and the second of them begins an F later."""
    problem = make_problem(**H11)
    assert run(problem, "list").bound == Bound(7 * 223 + 12, "residences of device 0 under the budget")


def test_memory_bounds_only_what_fits() -> None:
    """A bound that counts the budget applies only to schedules that fit it: naive needs 8 and gets 33 all the same."""
    tight = make_problem(devices=4, microbatches=8, budget=1)
    assert run(tight, "naive").bound.ticks == 33
    assert run(tight, "list").bound.ticks == 96


@examples(200)
@given(
    problems(SETTLED, overlap=True, most_devices=5, most_microbatches=9),
    randoms,
    st.sampled_from([0, 0.5, 1]),
    st.sampled_from([0, 0.5, 1]),
    st.booleans(),
)
@pytest.mark.slow
def test_never_above_a_legal_plan(
    problem: Problem, random: Random, split: float, pair: float, has_budget: bool
) -> None:
    """No legal plan (pairs, mixed backwards, any placement, with a budget that it just meets) is below its bound."""
    plan = plan_of(problem, random_plan(problem, random, split=split, pair=pair))
    schedule = schedule_plan(problem, plan)
    if has_budget:
        schedule = schedule_plan(with_capacities(problem, schedule.peak_grains), plan)
        assert schedule.fits
    assert 0 <= lower_bound(schedule).ticks <= schedule.makespan_ticks


@given(tiny, randoms)
def test_never_above_the_best_of_many_plans_with_pairs(problem: Problem, random: Random) -> None:
    """The bound of a plan that has a pair is at most the shortest of many random plans with any pairs."""
    assume(problem.microbatches >= 2 and problem.stages * problem.microbatches <= 6)
    plans = [plan_of(problem, random_plan(problem, random, pair=1)) for _ in range(12)]
    best = min(schedule_plan(problem, plan).makespan_ticks for plan in plans)
    assert all(bound_of(problem, plan) <= best for plan in plans if plan.pairs)


@given(problems(SETTLED, most_devices=2, most_microbatches=2, most_chunks=2, least=1))
def test_one_microbatch_is_exact(problem: Problem) -> None:
    """A single microbatch runs along its critical path, so the bound is the optimum, but where W may fill a wait."""
    one = replace(problem, microbatches=1)
    bound = bound_of(one, run(one, "list").schedule.plan)
    if one.costs.split:  # W is not divided over two waits, which a bound does not know
        assert bound <= (optimum(one, "FIW") or 0)
    else:
        assert bound == optimum(one, "FB")


# Residences and groups of units, and the jobs of a device in columns.

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


times = st.one_of(st.integers(0, 9), st.integers(0, 3))


some = st.lists(st.builds(Job, times, times, times), min_size=1, max_size=40)


@example([Job(0, 0, 0)], [Job(0, 0, 1)], 10**20)  # tails beyond 64 bits beside heads within
@given(some, some, st.sampled_from([1, 10**20]))
def test_jobs_may_be_joined(jobs: list[Job], more: list[Job], scale: int) -> None:
    """More jobs stand behind those of a device; the whole stretch is no longer than Jackson's schedule."""
    jobs, more = ([Job(*(scale * ticks for ticks in job)) for job in some] for some in (jobs, more))
    both = DeviceJobs(*map(column, zip(*jobs, strict=True))).with_more(more)
    assert both.listed() == [*jobs, *more]
    assert both.with_more([]).listed() == both.listed()
    assert jackson_preemptive(both) == jackson_preemptive(both.listed())
    assert sum(both.whole_stretch()) <= jackson_preemptive(both.listed())


# Capacity edges: what a budget says about the order of operations.


def index_of(problem: Problem, kinds: str) -> OpIndex:
    return OpIndex(kinds, problem.stages, problem.microbatches)


def edges_as_text(problem: Problem, kinds: str) -> set[str]:
    index = index_of(problem, kinds)
    return {
        f"{index.op(before)} {index.op(after)}"
        for edge in capacity_edges(problem, index)
        for before, after in zip(edge.before, edge.after, strict=True)
    }


def test_one_stage_a_device() -> None:
    """A budget of 2 activations is F(s,j) after B(s,j-2), and that says all."""
    problem = make_problem(devices=2, microbatches=4, placement="linear", budget=2)
    assert edges_as_text(problem, "FB") == {"0B0 0F2", "0B1 0F3", "1B0 1F2", "1B1 1F3"}
    assert says_all(problem, 0, index_of(problem, "FB"))


def test_half_retained() -> None:
    """Activation 2, half of it kept for W, budget 3: F1 waits for I0 only, F2 for W0 too; that is not all."""
    problem = make_problem(devices=1, microbatches=3, placement="linear", activation=2, retain=0.5, budget=3)
    assert edges_as_text(problem, "FIW") == {"0I0 0F1", "0I1 0F2", "0W0 0F2"}
    assert not says_all(problem, 0, index_of(problem, "FIW"))


@st.composite
def fitting(draw: st.DrawFn, *, least: int = 0) -> tuple[Problem, Schedule]:
    """A random plan of a random problem, and that problem with a budget that the plan just keeps.

    `least` is the shortest duration: operations that last no time free and take at one moment, in any order.
    """
    placements = ("linear", "loop", "v", "wave", "bidirectional", "two-v", "explicit")
    problem = draw(problems(placements, most_microbatches=5, least=least))
    texts = random_plan(problem, Random(draw(st.integers(0, 99))), split=float(problem.costs.split))
    plan = plan_of(problem, texts)
    tight = with_capacities(problem, schedule_plan(problem, plan).peak_grains)
    return tight, schedule_plan(tight, plan)


@given(fitting())
def test_every_schedule_within_the_budget_keeps_them(given_schedule: tuple[Problem, Schedule]) -> None:
    """Sorted by microbatch, the times of any schedule that fits obey the order and the capacity edges."""
    problem, schedule = given_schedule
    case = PlainVariant(problem)
    starts = sorted_rows(case, schedule.start_ticks)
    for before, after, lag in case.ordered.edges:
        assert starts[before] + case.graph.durations[before] + lag <= starts[after]


@given(fitting(), st.booleans())
def test_bounds_are_below_every_schedule_within_the_budget(
    given_schedule: tuple[Problem, Schedule], span: bool
) -> None:
    """No bound on makespan or span exceeds that of a random plan under the tightest budget that it keeps."""
    problem, schedule = given_schedule
    case = PlainVariant(problem, "span" if span else "makespan")
    assert case.bound().ticks <= case.value(schedule)


@given(fitting(least=1))
def test_a_replay_of_sorted_times_is_no_later_and_fits(given_schedule: tuple[Problem, Schedule]) -> None:
    """Renaming microbatches in each row keeps every rule, the makespan and the memory."""
    problem, schedule = given_schedule
    again = PlainVariant(problem).replay(schedule.start_ticks)
    assert again.makespan_ticks <= schedule.makespan_ticks
    assert again.fits


# The smallest budget at which any order exists.


def floors(problem: Problem) -> list[int]:
    """The floor of each device."""
    return [least_capacity(problem, device) for device in range(problem.devices)]


def test_slices_need_the_gradients_of_keys_and_values() -> None:
    """Two slices hold 1 each, and the first backward takes the gradients of the first slice, another 1."""
    problem = make_problem(devices=1, microbatches=1, slices=2, activation=2, kv=1, placement="linear")
    assert floors(problem) == [3 * problem.grains.per_unit]


@given(problems(SETTLED, most_devices=2, most_microbatches=2, most_chunks=2, least=1), st.integers(0, 1))
def test_no_order_below_and_one_at_the_floor(problem: Problem, device: int) -> None:
    """Trying every order finds one when each device has its floor, and none when a device has a grain less."""
    assume(problem.stages <= 3 and device < problem.devices)
    assume(problem.microbatches > 1 or not problem.settled_placement.mirrored)
    kinds = "FIW" if problem.costs.split else "FB"
    capacities = floors(problem)
    assert optimum(with_capacities(problem, capacities), kinds) is not None
    if capacities[device]:
        capacities[device] -= 1
        assert optimum(with_capacities(problem, capacities), kinds) is None


@given(problems(SETTLED), st.data())
def test_below_the_floor_is_said(problem: Problem, data: st.DataObject) -> None:
    """The first device below its floor is named, with floor and budget in the user's unit, static memory included."""
    capacities = [floor - data.draw(st.integers(-2, 2)) for floor in floors(problem)]
    tight = with_capacities(problem, capacities)
    per_unit = tight.grains.per_unit
    left = [capacity or 0 for capacity in tight.capacity_grains]
    below = [device for device, floor in enumerate(floors(tight)) if left[device] < floor]
    if not below:
        require_least_capacity(tight)
        return
    with pytest.raises(NoSchedule) as caught:
        require_least_capacity(tight)
    device, budget = below[0], tight.memory.budget
    assert budget
    assert caught.value.device == device
    static = tight.static_grains[device]
    assert caught.value.floor == pytest.approx((floors(tight)[device] + static) / per_unit)
    assert caught.value.budget == pytest.approx(float(budget[device]))
    assert f"device {device} needs a budget of at least" in caught.value.reason
    assert caught.value.would_fit


def test_what_would_fit() -> None:
    """The answer to a budget that is too small says which one is enough, and that fewer stages would help."""
    problem = make_problem(devices=4, stages=8, placement="loop", activation=0.5, static=1, budget=[9, 9, 2.5, 9])
    with pytest.raises(NoSchedule) as caught:
        require_least_capacity(problem)
    assert (caught.value.device, caught.value.floor, caught.value.budget) == (2, 3, 2.5)
    assert any("3" in way and "device 2" in way for way in caught.value.would_fit)
    assert "fewer stages a device" in caught.value.would_fit
    with pytest.raises(NoSchedule) as caught:  # 0.25 after the weights is not enough for one stage alone
        require_least_capacity(
            make_problem(devices=4, stages=8, placement="loop", activation=0.5, static=1, budget=2.25)
        )
    assert "fewer stages a device" not in caught.value.would_fit


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (MemorySavings(), [4, 4]),
        (MemorySavings(recompute=True), [3, 3]),  # device 0: a checkpoint of 1 and 2; device 1: 3, or 1.5 and 1
        (MemorySavings(offload=True), [2, 3]),
        (MemorySavings(offload=True, recompute=True), [2, 3]),
    ],
)
def test_what_earlier_stages_hold_with_actions(allowed: MemorySavings, expected: list[int]) -> None:
    """While a stage runs, the earlier ones of its device hold all, a checkpoint, or nothing."""
    problem = make_problem(devices=2, stages=4, placement="loop", activation=[2, 3, 2, 1], checkpoint=0.5)
    grains = [least_capacity(problem, device, allowed) for device in range(2)]
    assert [grain / problem.grains.per_unit for grain in grains] == expected


def test_actions_that_would_fit_are_named() -> None:
    """Below the floor, recompute and offload are offered where they would do; offload only if it has a cost."""
    given: dict[str, Any] = {"devices": 2, "stages": 4, "placement": "loop", "activation": 1, "checkpoint": 0.5}
    for budget, offload, ways in ((1.5, 1, ["recompute", "offload"]), (1.25, 1, ["offload"]), (1.25, None, [])):
        with pytest.raises(NoSchedule) as caught:
            require_least_capacity(make_problem(**given, budget=budget, offload=offload))
        assert [way for way in caught.value.would_fit if "solve" in way] == [f"solve with `{way}`" for way in ways]
