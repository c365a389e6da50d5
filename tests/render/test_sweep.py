"""The plot of a sweep: a line for each algorithm, and when there is one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pipesched
from pipesched import Comparison, Sweep
from pipesched.render.comparison import (
    MEASURES,
    MOST_LINES,
    PlotMark,
    best_lines,
    sweep_lines,
    sweep_plot,
    sweep_view,
    title_of_field,
)
from pipesched.render.scatter import PlotPoint, Scatter
from pipesched.render.table import display_parts
from pipesched.results.comparison import SweepPoint
from tests.render.conftest import draw

NAMES = ("naive", "1f1b", "interleaved", "zb-h1")


def swept(field: str = "microbatches", values: Any = (4, 8, 16, 32), **overrides: Any) -> Sweep:
    """The built-in default at several values of a field."""
    return pipesched.sweep(None, field, values, NAMES, overrides=overrides)


@pytest.mark.parametrize("width", [20, 60, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Whatever the measure and the width: the plot does not wrap."""
    sweep = swept()
    for show in MEASURES:
        plot = sweep_plot(sweep, show)
        assert plot is not None
        assert max(map(len, draw(plot, width).splitlines())) <= width


@pytest.mark.parametrize(
    ("field", "values"), [("p2p", (0, 0.1, 0.25, 3)), ("forward", (1e-3, 7, 1234.5)), ("budget", (4, 5.5, 6, 100))]
)
def test_any_numbers_may_vary(field: str, values: Any) -> None:
    """Values need be neither whole nor evenly spaced: the axis has round ones, and each algorithm a mark at each."""
    sweep = swept(field, values)
    for line in sweep_lines(sweep, "makespan").values():
        assert [mark.x for mark in line] == [*values]
    plot = sweep_plot(sweep, "makespan")
    assert plot is not None
    assert title_of_field(sweep) in draw(plot, 80)


def test_lines_rise_in_the_field_where_algorithms_apply() -> None:
    """Values in any order, and one twice, are one line from left to right; shares are in percent."""
    lines = sweep_lines(swept(values=(16, 4, 8, 4)))
    assert [mark.x for mark in lines["1f1b"]] == [4, 4, 8, 16]
    assert lines["1f1b"][0] == PlotMark(4, 300 / 7, True)
    lines = sweep_lines(pipesched.sweep(None, "stages", [4, 8, 12], ["1f1b", "zb-v"]))
    assert {name: [mark.x for mark in line] for name, line in lines.items()} == {"1f1b": [4, 8, 12], "zb-v": [8]}
    assert sweep_plot(Sweep("x", tuple(SweepPoint(value, Comparison(())) for value in range(4)))) is None


@pytest.mark.parametrize(
    ("values", "expected"), [((4,), False), ((4, 8), False), ((4, 8, 4), False), ((4, 8, 9), True)]
)
def test_three_values_make_a_plot(values: Any, expected: bool) -> None:
    """Fewer values of the field are told by the table."""
    assert (sweep_plot(swept(values=values)) is not None) == expected


def test_rows_of_a_document_are_drawn_too(tmp_path: Any) -> None:
    """A sweep that was written and read back has the same lines, units, plot and figure."""
    sweep = swept(time_unit="ms", unit="GB")
    again = pipesched.read(pipesched.write(sweep, tmp_path / "sweep.json"))
    assert isinstance(again, Sweep)
    assert sweep_lines(again, "makespan") == sweep_lines(sweep, "makespan")
    assert draw(sweep_view(again, "span"), 80) == draw(sweep_view(sweep, "span"), 80)
    shown = [draw(part, 80) for each in (sweep, again) for part in display_parts(each)]
    assert shown[0] == shown[1]
    assert "a naive  b 1f1b  c interleaved  d zb-h1" in shown[0]
    for name, each in (("one.svg", sweep), ("two.svg", again)):
        pipesched.write(each, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_the_figure_of_a_sweep() -> None:
    """A line for each algorithm with its marker and name, all as thick; hollow marks are over the budget."""
    figure = pipesched.figure(swept(budget=4), show="memory", inches=5)
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("microbatches", "memory of the fullest device (microbatch)")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [*NAMES, "over budget"]
    assert figure.get_figwidth() == 5
    lines = [line for line in axes.lines if line.get_linestyle() == "-"]
    assert [np.asarray(line.get_xdata()).tolist() for line in lines] == [[4, 8, 16, 32]] * 4
    assert len({line.get_linewidth() for line in lines}) == 1
    assert len({line.get_marker() for line in axes.lines if line.get_linestyle() == "None"} - {"None"}) == 4
    assert any(line.get_markerfacecolor() == "white" and np.size(line.get_xdata()) for line in axes.lines)


@pytest.mark.slow
def test_of_many_algorithms_the_best_are_plotted() -> None:
    """Eight lines can be told apart; the table, then a row for each algorithm, has all, and plot and figure say so."""
    sweep = pipesched.sweep(None, "microbatches", [8, 16, 24], "all")
    lines, note = best_lines(sweep, "utilization")
    every = sweep_lines(sweep, "utilization")
    assert (len(lines), note) == (MOST_LINES, f"the best 8 of {len(every)}")
    assert list(lines) == [name for name in every if name in lines]
    worst = min(line[-1].y for line in lines.values())
    assert all(line[-1].y <= worst for name, line in every.items() if name not in lines)
    text = draw(sweep_view(sweep, "utilization"), 80)
    assert f"({note})" in text
    assert re.search(r"^microbatches: +8 +16 +24$", text, re.MULTILINE)
    assert all(re.search(rf"^{name} +[\d.]+%", text, re.MULTILINE) for name in every)
    legend = pipesched.figure(sweep, show="utilization").legends[0]
    assert [text.get_text() for text in legend.get_texts()] == [*lines, note]


def test_a_mark_that_is_shared_otherwise_elsewhere() -> None:
    """Where a line meets one line at one value and two at another, the legend says `a+` once, with both meanings."""
    lines = {"x": (1, 1, 1), "y": (1, 1, 5), "z": (9, 1, 9)}
    points = [PlotPoint(x, y, mark) for mark, ys in lines.items() for x, y in enumerate(ys)]
    drawn = draw(Scatter(points, "value", "measure"), 60)
    assert "x+ = x y  or x y z" in drawn
    assert drawn.count("x+ =") == 1


@pytest.mark.parametrize(
    ("show", "title"),
    [
        ("makespan", "makespan (ms)"),
        ("microbatch", "time a microbatch (ms)"),
        ("bubble", "bubble (%)"),
        ("bubble-of-span", "bubble of span (%)"),
        ("vs bound", "gap (%)"),
        ("memory", "memory of the fullest device (GB)"),
        ("peak_memory", "peak memory (GB)"),
    ],
)
def test_metrics_by_the_names_of_documents_and_tables(show: str, title: str) -> None:
    """Each is drawn under its name in words with its unit, and so is what varies: no key of a config."""
    sweep = swept("budget", (4, 5, 6), time_unit="ms", unit="GB")
    (axes,) = pipesched.figure(sweep, show=show).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("memory budget (GB)", title)
    plot = sweep_plot(sweep, show)
    assert plot is not None
    assert (plot.x_title, plot.y_title) == ("memory budget (GB)", title)


def test_every_metric_of_a_document_can_be_shown() -> None:
    """Each number of a schedule's metrics is a measure, but the device that is the bottleneck."""
    metrics = pipesched.run(pipesched.make_problem(devices=2), "1f1b").metrics
    numbers = {name for name, value in metrics.items() if isinstance(value, (int, float)) and name != "bottleneck"}
    assert numbers - {"fits"} <= set(MEASURES)


def test_a_column_says_that_its_plan_is_frozen() -> None:
    """That of a plan does, also where it is for no value; those that plan anew do not. A long name is not cut."""
    plan = pipesched.run(pipesched.make_problem(devices=2, microbatches=4), "1f1b").schedule.plan
    sweep = pipesched.sweep("devices: 2", "microbatches", [2, 4], ["1f1b"], plans={"mine": plan, "word" * 20: plan})
    text = draw(pipesched.Table(sweep), 60)
    assert re.search(r"^microbatches +1f1b  mine \(frozen\)  ", text, re.MULTILINE)
    assert "…" not in text
    assert "mine at microbatches 2: the problem has 2 microbatches, but the plan has 4" in " ".join(text.split())
