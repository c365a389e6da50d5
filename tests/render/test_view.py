"""What part of a schedule is drawn: arguments of Gantt and of figures, and what they refuse."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

import pipesched
from pipesched import ConfigError
from pipesched.render.scene import Window
from pipesched.render.view import View
from tests.render.conftest import draw

PROBLEM = pipesched.make_problem(devices=4, microbatches=8, forward=2.5, backward=5)  # half of a backward is 2.5
OUTCOME = pipesched.run(PROBLEM, "1f1b")
LIMITED = pipesched.run(replace(PROBLEM, memory=replace(PROBLEM.memory, budget=(4,) * 4)), "1f1b")


def rows_of(text: str) -> list[str]:
    """The names of the rows of a chart."""
    return re.findall(r"^device \d+|^mem", text, re.MULTILINE)


@pytest.mark.parametrize("rows", [[2], [0, 3], (3, 0), [1, 1], range(2)])
def test_rows_choose_devices(rows: Any) -> None:
    """Only these devices are drawn, in their order, each as it stands in the whole chart."""
    whole = draw(pipesched.Gantt(OUTCOME, show_legend=False, ascii_only=True), 100).splitlines()
    part = draw(pipesched.Gantt(OUTCOME, rows=rows, show_legend=False, ascii_only=True), 100)
    assert rows_of(part) == [f"device {device}" for device in sorted(set(rows))]
    assert all(line in whole for line in part.splitlines())


def test_rows_with_memory() -> None:
    """A strip stands below each device that is drawn."""
    assert rows_of(draw(pipesched.Gantt(LIMITED, rows=[1, 3]), 100)) == ["device 1", "mem", "device 3", "mem"]
    assert rows_of(draw(pipesched.Gantt(LIMITED, rows=[1], memory=False), 100)) == ["device 1"]
    assert rows_of(draw(pipesched.Gantt(OUTCOME, rows=[1], memory=True), 100)) == ["device 1", "mem"]


def test_until_makes_charts_comparable() -> None:
    """Of two charts up to the same tick the shorter schedule ends earlier; without it each fills its own axis."""
    short, long = OUTCOME.schedule, pipesched.run(PROBLEM, "sequential").schedule
    until = max(long.last_end_ticks)
    together = pipesched.Gantt(short, until=until, ascii_only=True, show_legend=False)
    assert together.window == Window(0, until)
    assert pipesched.Gantt(short).window == Window(0, max(short.last_end_ticks))
    row = draw(together, 120).splitlines()[2][len("device 0 ") : -len(" idle")]
    share = len(row.rstrip(". ")) / len(row)
    assert share == pytest.approx(short.makespan / long.makespan, abs=0.03)


def test_charts_together_have_equal_ticks() -> None:
    """Outcomes are as good as schedules; one whose ticks are longer is refused, because one axis cannot show both."""
    assert pipesched.Gantt(OUTCOME, together=(OUTCOME, OUTCOME.schedule)).together == [OUTCOME.schedule] * 2
    whole = pipesched.run(pipesched.make_problem(devices=4, microbatches=8), "1f1b")
    with pytest.raises(ConfigError, match="together: must be schedules whose ticks are as long as those of schedule"):
        pipesched.Gantt(OUTCOME, together=[OUTCOME, whole])


@pytest.mark.parametrize("start", [10, 10.0, "10", Decimal("10"), Fraction(10)])
def test_times_are_in_the_users_unit(start: Any) -> None:
    """A start of 10 is tick 100 where a tick is a tenth; any way to write a number does."""
    assert PROBLEM.ticks.per_unit == 10
    assert pipesched.Gantt(OUTCOME, start=start, end=20).window == Window(100, 200)


def test_ends_beyond_the_schedule() -> None:
    """An end later than everything is the last end, a start before 0 is 0; zoom takes its part of what is left."""
    last = max(OUTCOME.schedule.last_end_ticks)
    assert View(start=-5, end=10_000).window(OUTCOME.schedule) == Window(0, last)
    assert View(end=10_000, zoom=3).window(OUTCOME.schedule) == Window(0, last // 3)
    assert View(start=10, zoom=1000).window(OUTCOME.schedule) == Window(100, 101)


def test_a_schedule_is_drawn_as_its_outcome() -> None:
    """A bare schedule has the chart of its outcome, and the title of its figure."""
    assert draw(pipesched.Gantt(OUTCOME.schedule), 100) == draw(pipesched.Gantt(OUTCOME), 100)
    for one in (OUTCOME.schedule, OUTCOME):
        assert pipesched.figure(one).axes[0].get_title("left").startswith("1f1b  4 devices")


def test_every_argument_of_a_view_has_a_default() -> None:
    """View() draws all there is, as wide as a page."""
    assert View() == View(None, None, 1, "auto", None, 7.0, None, None, None, "bubble", None, 7, "below", 0, "device")
    assert len(fields(View)) == 15
    assert View().window(OUTCOME.schedule) == Window(0, max(OUTCOME.schedule.last_end_ticks))
    assert View().devices(OUTCOME.schedule) == range(4)
    assert (View().shows_memory(OUTCOME.schedule), View().shows_memory(LIMITED.schedule)) == (False, True)
