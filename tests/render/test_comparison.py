"""Comparisons: one layout for all charts, a table that stays readable, sweeps that say why."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pipesched import Comparison, Gantt, Sweep, compare, make_problem, run
from pipesched.documents.comparison import comparison_document, comparison_of
from pipesched.render.comparison import ComparisonTable, frozen, marks, sweep_table
from pipesched.results.comparison import SweepPoint, pareto_points
from tests.render.conftest import draw

NAMES = ["naive", "1f1b", "interleaved"]
AUTOPIPE: dict[str, Any] = {"devices": 4, "stages": 8, "microbatches": 8, "forward": 5, "backward": 10}


@pytest.mark.parametrize("width", [60, 79, 80, 120])
def test_no_number_of_the_table_is_cut(width: int) -> None:
    """The table names every makespan, difference, bubble and peak whole, at any usual width."""
    entries = compare(make_problem(**AUTOPIPE), NAMES)
    text = draw(ComparisonTable(entries), width)
    assert "…" not in text
    assert re.search(r"interleaved ★ +285 +best " + r"+15\.8%" * (width >= 79), text)
    assert re.search(r"naive +330 +\+15\.8% " + r"+27\.3%" * (width >= 79), text)


@pytest.mark.parametrize(("width", "has_differences"), [(40, False), (48, True), (55, True)])
def test_a_narrow_table_keeps_names_makespans_and_peaks(width: int, has_differences: bool) -> None:
    """Where there is no room for every column, those left are whole, and nothing is explained that is not there."""
    text = draw(ComparisonTable(compare(make_problem(**AUTOPIPE, budget=5), NAMES)), width)
    assert "…" not in text
    assert re.search(rf"naive +330 {r'+[+]0[.]0% ' * has_differences}+8 over +\+0\.0%", text)
    assert re.search(rf"1f1b ★ +330 {'+best ' * has_differences}+4 ", text)
    assert "bubble:" not in text
    assert re.search(r"no room for .*runs in, bubble, of span, over ideal", " ".join(text.split()))


def test_a_schedule_over_budget_is_never_the_best() -> None:
    """Equal makespans: the one that does not fit gets no mark, and neither `best` nor `optimal`."""
    entries = compare(make_problem(**AUTOPIPE, budget=4), ["naive", "1f1b"])
    naive, fitting = draw(ComparisonTable(entries), 100).splitlines()[2:4]
    assert "★" in fitting
    assert not re.search("★|best|optimal", naive)
    assert "8 over" in naive


@pytest.mark.parametrize("width", [60, 64, 80, 100])
@pytest.mark.parametrize("budget", [None, 4.5])
def test_charts_of_a_comparison_share_their_columns(width: int, budget: float | None) -> None:
    """The axes of all charts stand at the same columns, whatever their own costs and peaks are."""
    schedules = [
        entry.outcome.schedule for entry in compare(make_problem(**AUTOPIPE, budget=budget), NAMES) if entry.outcome
    ]
    until = max(one.makespan_ticks for one in schedules)
    charts = [Gantt(one, together=schedules, until=until, ascii_only=True) for one in schedules]
    assert len({draw(chart, width).splitlines()[1] for chart in charts}) == 1


def test_the_strip_has_no_holes_where_a_tick_is_several_columns_wide() -> None:
    """Cost 1 on a wide terminal: memory is shown in every column from the first forward to the last backward."""
    problem = make_problem(devices=4, microbatches=8, forward=1, backward=2, budget=4)
    entry = compare(problem, ["1f1b"])[0]
    assert entry.outcome is not None
    lines = draw(Gantt(entry.outcome.schedule, ascii_only=True), 100).splitlines()
    strip = next(line for line in lines if line.startswith("mem"))[len("device 0 ") :]
    levels = strip.rstrip().removesuffix("4/4").rstrip()
    assert re.fullmatch("3+5+7+9+7+5+3+", levels)
    assert len(levels) == 66  # two columns for each of the 33 units


def test_a_sweep_says_why_there_is_no_number() -> None:
    """n/a and ! are explained below the table, and what is over budget is not marked best."""
    points = []
    for stages in (4, 6, 8):
        problem = make_problem(**{**AUTOPIPE, "stages": stages, "budget": 3})
        points.append(SweepPoint(stages, compare(problem, ["1f1b", "list"])))
    text = draw(sweep_table(Sweep("stages", tuple(points))), 100)
    assert "! over budget" in text
    assert "1f1b at stages 6: 1f1b needs a multiple of 4 stages" in text


def test_a_frozen_order_says_so_beside_algorithms_that_plan_anew() -> None:
    """In the table, in that of a sweep, and in the document, from which it is read again; alone it says nothing."""
    problem = make_problem(devices=2, microbatches=4)
    plans = {"mine": run(problem, "1f1b")}
    said = "in the order that was given: mine; the others plan anew"
    both = compare(problem, ["naive"], plans=plans)
    for one in (both, comparison_of(comparison_document(both))):
        assert [text.plain for text in frozen(one)] == [said]
    assert not [*frozen(compare(problem, plans=plans))]
    assert said in draw(sweep_table(Sweep("microbatches", (SweepPoint(4, both),))), 100)


def test_marks_say_what_is_dominated() -> None:
    """A large letter is on the frontier; after the letters come digits, then #."""
    first, other = compare(make_problem(**AUTOPIPE), ["1f1b", "naive"])
    found = marks(pareto_points(Comparison((first, *[other] * 40))))
    assert "".join(found) == "Abcdefghijklmnopqrstuvwxyz0123456789#####"
