"""The rows of advice in a summary, with what is typed for each change, and its sentence."""

from __future__ import annotations

from dataclasses import replace

import pipesched
from pipesched import Advice, SolveReport
from pipesched.cli.groups import spell
from pipesched.render.scene import as_parameters
from pipesched.render.summary import advice_rows, sentence

OUTCOME = pipesched.solve(
    pipesched.make_problem(devices=2, microbatches=3, forward=1, backward=2), method="portfolio", advice=False
)
ADVICE = (
    Advice("split backward", 10, -2, {"split_backward": True}),
    Advice("one activation more", 11, -1, {}, {"budget": [2, 2.5]}),
    Advice("6 microbatches", 11.5, -0.5, {}, {"microbatches": 6, "forward": 0.5, "static": "1/3"}),
)


def report_with(advice: tuple[Advice, ...] | None) -> SolveReport:
    assert OUTCOME.report is not None
    assert OUTCOME.report.value == 12
    return replace(OUTCOME.report, advice=advice)


def test_rows() -> None:
    """The change, its makespan, how much shorter that is, and the flags; a value without one by its key."""
    assert [*advice_rows(report_with(ADVICE), str, spell)][1:] == [
        ("  split backward", "10", "16.7% shorter: --split-backward"),
        ("  one activation more", "11", "8.3% shorter: --mem-budget 2,2.5"),
        ("  6 microbatches", "11.5", "4.2% shorter: --microbatches 6 --forward 0.5 `memory.static` 1/3"),
    ]
    assert [*advice_rows(report_with(ADVICE), str, as_parameters)][2][2] == "8.3% shorter: memory.budget 2,2.5"


def test_what_is_to_be_left_out() -> None:
    """A parameter that is False is the flag that says no."""
    whole = Advice("whole backward", 10, -2, {"split_backward": False})
    texts = [[*advice_rows(report_with((whole,)), str, one)][1][2] for one in (spell, as_parameters)]
    assert texts == ["16.7% shorter: --no-split-backward", "16.7% shorter: split_backward=False"]


def test_many_values_stand_in_the_document() -> None:
    """A list of a hundred costs is not shown on a screen."""
    many = Advice("6 microbatches", 11, -1, {}, {"microbatches": 6, "forward": [1.25, 2.5] * 50})
    shown = [*advice_rows(report_with((many,)), str, spell)][1][2]
    assert shown == "8.3% shorter: --microbatches 6, with the values of solver.advice in the JSON document"


def test_nothing_helps_and_nothing_was_tried() -> None:
    """The first is said, the second is silent."""
    assert [row[:2] for row in advice_rows(report_with(()), str, spell)] == [("would help", "nothing")]
    assert [*advice_rows(report_with(None), str, spell)] == []


def test_the_ideal_of_devices_of_different_speed() -> None:
    """Work that is spread by speed takes all work / the sum of speeds: 3 microbatches x 4 stages x 3 / 3.5."""
    for speed, ideal in ((None, "9"), ([1, 1, 0.5, 1], "10.2857"), ([0.5, 0.5, 0.5, 0.5], "18")):
        problem = pipesched.make_problem(devices=4, microbatches=3, forward=1, backward=2, speed=speed)
        outcome = pipesched.run(problem, "1f1b")
        assert sentence(outcome.metrics, "ms", outcome.schedule).plain.endswith(f"it would take {ideal} ms.")
