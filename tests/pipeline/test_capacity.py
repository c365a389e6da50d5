"""Capacity edges: what a budget says about the order of operations."""

from __future__ import annotations

from random import Random

from hypothesis import given, strategies as st

from pipesched.pipeline.bounds.memory import capacity_edges, says_all
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.solver.model import sorted_rows
from pipesched.solver.saving_portfolio import KeepingCase
from tests.strategies import plan_of, problems, random_plan, with_capacities


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


def test_two_stages_a_device() -> None:
    """V on one device, room for 3: a second microbatch may come in beside the first, a third may not."""
    problem = make_problem(devices=1, stages=2, microbatches=3, placement="v", activation=1, budget=3)
    assert edges_as_text(problem, "FB") == {"0B0 1F2", "1B0 1F1", "1B1 1F2"}


def test_activations_of_no_duration() -> None:
    """What is there and gone within an instant needs no room, so its start proves nothing."""
    problem = make_problem(devices=2, microbatches=4, placement="linear", forward=[0, 1], backward=0, budget=2)
    assert edges_as_text(problem, "FB") == {"1B0 1F2", "1B1 1F3"}
    assert not says_all(problem, 0, index_of(problem, "FB"))


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
    case = KeepingCase(problem)
    starts = sorted_rows(case, schedule.start_ticks)
    for before, after, lag in case.ordered.arrows():
        assert starts[before] + case.graph.durations[before] + lag <= starts[after]


@given(fitting(), st.booleans())
def test_bounds_are_below_every_schedule_within_the_budget(
    given_schedule: tuple[Problem, Schedule], span: bool
) -> None:
    """No bound on makespan or span exceeds that of a random plan under the tightest budget that it keeps."""
    problem, schedule = given_schedule
    case = KeepingCase(problem, "span" if span else "makespan")
    assert case.bound().ticks <= case.value(schedule)


@given(fitting(least=1))
def test_a_replay_of_sorted_times_is_no_later_and_fits(given_schedule: tuple[Problem, Schedule]) -> None:
    """Renaming microbatches in each row keeps every rule, the makespan and the memory."""
    problem, schedule = given_schedule
    again = KeepingCase(problem).replay(schedule.start_ticks)
    assert again.makespan_ticks <= schedule.makespan_ticks
    assert again.fits
