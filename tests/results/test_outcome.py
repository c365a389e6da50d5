"""Outcomes: names of what comes back, costs of documents, budgets that are kept, and packings."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import NoSchedule, algorithms, compare, make_problem, run
from pipesched.results.document_costs import FactorCosts, half_even, load_of

PROBLEM = make_problem(devices=2, microbatches=2, forward=1, backward=2)
ORDERS = ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"]
MINE = pipesched.schedule_plan(PROBLEM, pipesched.plan(PROBLEM, ORDERS, name="my plan"))


def test_its_argument_is_said_everywhere(tmp_path: Path) -> None:
    """The document, the page, the figure, an explanation, a robustness and a comparison have the name."""
    file = pipesched.write(MINE, tmp_path / "other.json")
    assert json.loads(file.read_text())["algorithm"] == "my plan"
    again: Any = pipesched.read(file)
    assert (again.algorithm, again.schedule.name) == ("my plan", "my plan")
    assert "<title>my plan - pipesched</title>" in pipesched.write(MINE, tmp_path / "a.html").read_text()
    assert pipesched.figure(MINE).axes[0].get_title("left").startswith("my plan  2 devices")
    assert pipesched.explain(MINE).algorithm == "my plan"
    assert [row.algorithm for row in pipesched.robustness([MINE], samples=2)] == ["my plan"]
    assert pipesched.schedule_plan(PROBLEM, pipesched.plan(PROBLEM, ORDERS)).name == "plan"


def test_what_it_breaks_is_told_with_it() -> None:
    """A schedule without an operation is refused by its name."""
    short = pipesched.plan(PROBLEM, ["0F0 0F1 0B0", "1F0 1B0 1F1 1B1"], name="short one")
    with pytest.raises(pipesched.InvalidSchedule, match="short one breaks the rules of its problem: 0B1 is missing"):
        pipesched.pipeline.check.check.checked(pipesched.schedule_plan(PROBLEM, short))


def test_plans_compare_by_their_names() -> None:
    """Plans in a list, or alone, have their names in a comparison; one that is an algorithm's, or taken, a number."""
    ours = pipesched.run(PROBLEM, "1f1b")
    listed = pipesched.compare(PROBLEM, ["1f1b"], plans=[MINE, MINE.plan, ours, ours.schedule])
    assert [entry.algorithm for entry in listed] == ["1f1b", "my plan", "my plan-2", "1f1b-2", "1f1b-3"]
    assert [entry.algorithm for entry in pipesched.compare(PROBLEM, plans=MINE.plan)] == ["my plan"]


def test_its_file_or_its_function_gives_it(tmp_path: Path) -> None:
    """A CSV is called as its file, a function as it is."""

    def my_own(problem: pipesched.Problem) -> list[str]:
        return ORDERS

    outcome = pipesched.run(PROBLEM, my_own)
    assert (outcome.algorithm, outcome.schedule.name) == ("my-own", "my-own")
    file = pipesched.write(MINE, tmp_path / "theirs.csv")
    read: Any = pipesched.read(file, problem=PROBLEM)
    assert (read.algorithm, read.schedule.name) == ("theirs", "theirs")


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=9), st.fractions(0, 1), st.integers(1, 10**6))
def test_formula(lengths: list[int], attention: Fraction, reference: int) -> None:
    """Work is the sum of (1 - a) L / T0 + a (L / T0)^2, size that of L / T0, both rounded once."""
    costs, load = FactorCosts(attention, reference), load_of(lengths)
    parts = [Fraction(length, reference) for length in lengths]
    work = sum(((1 - attention) * part + attention * part**2 for part in parts), Fraction(0))
    assert costs.work(load) == round(work, 6)
    assert costs.size(load) == round(sum(parts, Fraction(0)), 6)
    assert sum(Fraction(costs.amounts(length)[0], costs.reference_amount) for length in lengths) == work


@pytest.mark.parametrize(
    ("numerator", "rounded"), [(5, 2), (15, 2), (25, 2), (35, 4), (14, 1), (16, 2), (0, 0), (24, 2), (26, 3)]
)
def test_halves_go_to_even(numerator: int, rounded: int) -> None:
    """1.5 and 2.5 millionths are 2."""
    numerator, rounded = (numerator, rounded) if numerator != 5 else (5, 0)
    assert half_even(numerator, 10**7) == Fraction(rounded, 10**6)


OBEYING = [one.name for one in algorithms() if one.obeys_budget]
WHOLE: dict[str, Any] = {
    "devices": 2, "microbatches": 4, "forward": 2, "backward_input": 2, "backward_weight": 2, "weights": 6,
    "shard": {"level": "weights", "ranks": 3},
}  # fmt: skip


@pytest.mark.parametrize("name", OBEYING)
def test_what_a_stage_must_hold_is_a_floor(name: str) -> None:
    """A budget below the whole weights of a stage, beside one activation and what stays, is refused with its floor."""
    with pytest.raises(NoSchedule, match="device 1 needs a budget of at least 9") as refused:
        run(make_problem(**WHOLE, budget=[10, 8]), name)
    assert (refused.value.device, refused.value.floor, refused.value.budget) == (1, 9, 8)
    assert run(make_problem(**WHOLE, budget=[9, 9]), name).schedule.fits


@pytest.mark.parametrize("name", OBEYING)
def test_side_work_beyond_the_budget_is_refused(name: str) -> None:
    """Where side work alone takes more than is left, the answer names the device and what it would hold."""
    side = [{"name": "vision", "forward": 1, "backward": 2, "devices": [1], "activation": 5}]
    problem = make_problem(devices=2, microbatches=2, backward_input=2, backward_weight=2, side=side, budget=3)
    with pytest.raises(NoSchedule, match=f"{name} found no order .* device 1 holds .* of 3 microbatch") as refused:
        run(problem, name, side_rule="bubbles")
    assert refused.value.device == 1


def test_other_families_are_drawn_over_their_budget() -> None:
    """A family with an order of its own keeps it, over the budget; beside it one that obeys has a reason."""
    entries = compare(make_problem(**WHOLE, budget=8), ["1f1b", "list"]).entries
    assert entries[0].outcome is not None
    assert not entries[0].outcome.schedule.fits
    assert "needs a budget of at least 9" in entries[1].reason
