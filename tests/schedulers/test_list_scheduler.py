"""List scheduling of pipelines: what HLS's rules give, and that a budget is obeyed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from pipesched import ConfigError, NoSchedule, Plan, Problem, make_problem, run
from pipesched.core.listsched import PRIORITIES, TIES
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.pipeline.check.check import violations
from tests.examples import examples
from tests.oracle.alike import Op, Replayed, device_of, inputs, name, parts, replay
from tests.strategies import ALL_PLACEMENTS, SETTLED, problems, texts_of, with_capacities

rules = st.fixed_dictionaries({"priority": st.sampled_from(sorted(PRIORITIES)), "tie": st.sampled_from(sorted(TIES))})


def alike(plan: Plan) -> list[list[tuple[str, int]]]:
    """The orders of a linear plan, with the microbatches numbered as they enter: those have no identity."""
    rows = [[plan.index.op(number) for number in order] for order in plan.orders]
    entered = [op.microbatch for op in rows[0] if op.kind == "F"]
    return [[(op.kind, entered.index(op.microbatch)) for op in row] for row in rows]


def floor(problem: Problem, device: int) -> int:
    """What one microbatch holds on a device at its highest: the activations up to a stage, and what its I takes."""
    caught = problem.grains.largest["caught"] if problem.costs.split else (0,) * problem.stages
    highest = 0
    for mb in range(problem.microbatches):
        held = 0
        for stage in (s for s in range(problem.stages) if device_of(problem, s, mb) == device):
            held += problem.grains.largest["activation"][stage]
            highest = max(highest, held + caught[stage])
    return highest


@given(st.integers(1, 5), st.integers(1, 9), st.integers(1, 4), st.integers(1, 6), st.integers(0, 3), rules)
def test_caps_of_1f1b_for_any_equal_stages(
    devices: int, microbatches: int, forward: int, backward: int, p2p: int, rule: dict[str, str]
) -> None:
    """The same for other costs and with p2p, as long as the stages are equal."""
    problem = make_problem(
        devices=devices,
        microbatches=microbatches,
        forward=forward,
        backward=backward,
        p2p=p2p,
        budget=[devices - device for device in range(devices)],
    )
    assert alike(run(problem, "list", **rule).schedule.plan) == alike(run(problem, "1f1b").schedule.plan)


def test_a_uniform_cap() -> None:
    """P4 M8 f=1 B=2 with a cap of 4: DFS reaches 33, BFS and the critical-path priority 37."""
    problem = make_problem(devices=4, microbatches=8, forward=1, backward=2, budget=4)
    assert run(problem, "list", tie="dfs").schedule.makespan_ticks == 33
    assert run(problem, "list", tie="bfs").schedule.makespan_ticks == 37
    assert {run(problem, "list", priority="alap", tie=tie).schedule.makespan_ticks for tie in TIES} == {37}


def test_defaults() -> None:
    """`list` defaults to linear, priority none, tie dfs."""
    problem = make_problem(devices=3, stages=6, microbatches=5, budget=3)
    schedule = run(problem, "list").schedule
    assert schedule.problem.settled_placement.devices == (0, 0, 1, 1, 2, 2)
    assert texts_of(schedule.plan) == texts_of(run(problem, "list", priority="none", tie="dfs").schedule.plan)


@given(problems(ALL_PLACEMENTS), rules, st.integers(0, 3))
def test_same_seed_same_plan(problem: Problem, rule: dict[str, str], seed: int) -> None:
    """The same rule and seed give the same plan."""
    one, other = (run(problem, "list", **rule, seed=seed).schedule for _ in range(2))
    assert texts_of(one.plan) == texts_of(other.plan)


def test_seeds_matter_to_random_ties() -> None:
    """Another seed gives another plan by random ties, and the same one by all others."""
    problem = make_problem(devices=4, stages=8, microbatches=6, placement="loop")
    plans = {
        tie: {str(texts_of(run(problem, "list", tie=tie, seed=s).schedule.plan)) for s in range(4)} for tie in TIES
    }
    assert {tie for tie, different in plans.items() if len(different) > 1} == {"random"}


@examples(300)
@given(problems(SETTLED, most_microbatches=8), rules, st.data())
def test_obeys_any_budget_from_the_floor_on(problem: Problem, rule: dict[str, Any], data: st.DataObject) -> None:
    """Every budget that holds one microbatch gives a schedule within it; below that the device is named."""
    assume(problem.microbatches > 1 or not problem.settled_placement.mirrored)
    floors = [floor(problem, device) for device in range(problem.devices)]
    slack = st.one_of(st.just(0), st.integers(-1, max(floors) + 1))
    capacities = [max(least + data.draw(slack), 0) for least in floors]  # no budget is less than nothing
    tight = with_capacities(problem, capacities)
    below = [device for device, capacity in enumerate(capacities) if capacity < floors[device]]
    if below:
        with pytest.raises(NoSchedule) as caught:
            run(tight, "list", **rule)
        assert caught.value.device == below[0]
        return
    schedule = run(tight, "list", **rule).schedule
    naive = replay(tight, texts_of(schedule.plan))
    rooms = [capacity or 0 for capacity in tight.capacity_grains]  # in its own grains, which may be finer
    assert all(peak <= room for peak, room in zip(naive.peak, rooms, strict=True))
    assert schedule.fits
    assert list(violations(schedule)) == []


@given(problems(SETTLED, most_microbatches=4), rules)
def test_never_idle_without_reason(problem: Problem, rule: dict[str, str]) -> None:
    """Without a cap a device never waits while something that it runs later had all its inputs."""
    schedule = run(problem, "list", **rule).schedule
    naive = replay(problem, texts_of(schedule.plan))
    for row in texts_of(schedule.plan):
        idle_from = 0
        for place, text in enumerate(row):
            if idle_from < naive.start[text]:
                later = [ready_at(problem, parts(other)[0], naive) for other in row[place:]]
                assert min(later) >= naive.start[text]
            idle_from = naive.end[text]


def ready_at(problem: Problem, op: Op, naive: Replayed) -> int:
    """When the inputs of an operation are there."""
    planned = [one for text in naive.end for one in parts(text)]
    return max((naive.end[name(one)] + lag for one, lag in inputs(problem, op, planned)), default=0)


@pytest.mark.parametrize("option", [{"priority": "critical"}, {"tie": "depth"}, {"priority": "dsf"}])
def test_unknown_rules(option: dict[str, str]) -> None:
    """An unknown priority or tie is answered with those that exist."""
    with pytest.raises(ConfigError, match=f"unknown {next(iter(option))}.*known are"):
        run(make_problem(devices=2), "list", **option)


@st.composite
def cut_problems(draw: st.DrawFn) -> Problem:
    """Slices of unequal tokens on several stages a device, whose budget just holds one microbatch, or little more."""
    devices, chunks, microbatches = draw(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4)))
    parts = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    given: dict[str, Any] = {
        "devices": devices, "stages": devices * chunks, "microbatches": microbatches,
        "slices": {"count": len(parts), "tokens": [Fraction(part, sum(parts)) for part in parts]},
        "mode": draw(st.sampled_from(["train", "train", "forward"])),
        "kv": draw(st.sampled_from([0, 0.25, 1])), "placement": draw(st.sampled_from(["linear", "loop"])),
        "sizes": {"activation": draw(st.lists(st.integers(1, 4), min_size=microbatches, max_size=microbatches))},
    }  # fmt: skip
    if given["mode"] == "train" and draw(st.booleans()):
        given |= {"backward_input": 1, "backward_weight": draw(st.integers(0, 2))}
        given["retain"] = draw(st.sampled_from([0.5, 1, 1.5, 2.5]))
    problem = make_problem(**given)
    shares = st.sampled_from([Fraction(1), Fraction(5, 4), Fraction(2)])
    more = draw(st.lists(shares, min_size=devices, max_size=devices))
    floors = [Fraction(least_capacity(problem, device), problem.grains.per_unit) for device in range(devices)]
    return make_problem(**given, budget=[least * by for least, by in zip(floors, more, strict=True)])


@examples(100)
@given(cut_problems(), rules)
def test_slices_never_block_each_other(problem: Problem, rule: dict[str, str]) -> None:
    """Partial microbatches do not fill the memory for ever: any budget that holds one microbatch is enough for all."""
    schedule = run(problem, "list", **rule).schedule
    assert list(violations(schedule)) == []
    assert schedule.fits


@pytest.mark.parametrize(("budget", "makespan"), [(1.1875, 84), (3, 59)])
def test_room_for_gradients_of_keys_and_values(budget: float, makespan: float) -> None:
    """P4 M4 n4 with a quarter of keys and values: a microbatch and 3/16 fit (in 84, which is proved), no less does."""
    costs: dict[str, Any] = {"devices": 4, "microbatches": 4, "forward": 4, "backward": 8, "slices": 4, "kv": 0.25}
    schedule = run(make_problem(**costs, budget=budget), "list").schedule
    assert schedule.makespan == makespan
    assert schedule.fits
    with pytest.raises(NoSchedule, match=r"at least 1\.1875 microbatch to run one microbatch"):
        run(make_problem(**costs, budget=1.18), "list")
