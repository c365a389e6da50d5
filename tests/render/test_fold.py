"""Charts of real size: what is folded away, what is still true of the rest, and colours by kind."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len
from rich.text import Text

import pipesched
from pipesched import Schedule, schedule_plan
from pipesched.render.gantt import NOTHING, fold_of
from pipesched.render.palette import BREAK, HUES, colour_of
from pipesched.render.scene import Window, fit_parts
from tests.examples import examples
from tests.render.conftest import Golden, draw

REAL: dict[str, Any] = {"devices": 8, "microbatches": 48, "forward": 5, "backward": 10}


def scheduled(algorithm: str, **values: Any) -> Schedule:
    """A schedule of 8 devices and 48 microbatches, or of another problem."""
    return pipesched.run(pipesched.make_problem(**{**REAL, **values}), algorithm).schedule


def folds(chart: str) -> bool:
    """Whether a chart has a break."""
    return BREAK in chart


def test_charts_together_fold_each_by_itself(golden: Golden) -> None:
    """Asked for, charts of a comparison leave out what repeats in each, on one scale."""
    both = [scheduled("1f1b", devices=4), scheduled("sequential", devices=4)]
    charts = [draw(pipesched.Gantt(each, together=both, fold=True, memory=False), 80) for each in both]
    golden("fold-together-plain-80.txt", "\n".join(charts))
    assert len({re.findall(r"1 column = \S+|\d+ columns = \S+", chart)[0] for chart in charts}) == 1


@pytest.mark.parametrize(("algorithm", "width"), [("zb-h1", 80), ("dualpipe", 90)])
def test_what_is_drawn_is_as_in_the_whole_chart(algorithm: str, width: int) -> None:
    """Left of the break a row begins, and right of it ends, as in the whole chart on the same scale."""
    schedule = scheduled(algorithm)
    folded = draw(pipesched.Gantt(schedule, show_legend=False, memory=True), width)
    fold = fold_of(schedule)
    assert fold is not None
    columns = schedule.makespan_ticks // 5  # where a column is a quantum
    tail = max(len(row) for row in re.findall(r" +\d+$", folded, re.MULTILINE))
    whole = draw(
        pipesched.Gantt(schedule, show_legend=False, memory=True, fold=False), columns + len("device 0 ") + tail + 2
    )
    both = [[line for line in chart.splitlines() if re.match(r"device \d|mem", line)] for chart in (folded, whole)]
    head = len("device 0 ")
    left, right = fold.gap.start // 5, (max(schedule.last_end_ticks) - fold.gap.end) // 5
    for short, long in zip(*both, strict=True):
        assert short[head : head + left] == long[head : head + left]
        assert short[head + left] == BREAK
        begins = short[head + left + 1 : head + left + 1 + right]
        assert begins[2:] == long[head + columns - right : head + columns][2:]  # a slot may begin in the gap


def test_a_schedule_that_only_repeats_keeps_its_last_period() -> None:
    """Sequential is nothing but periods: the first and the last are drawn."""
    schedule = scheduled("sequential")
    fold = fold_of(schedule)
    assert fold is not None
    assert fold.periods == 46
    assert fold.parts(Window(0, 5760)) == [Window(0, 120), Window(5640, 5760)]


@pytest.mark.parametrize(
    ("options", "width", "expected"),
    [
        ({}, 80, True),
        ({"fold": True}, 80, True),
        ({"fold": False}, 80, False),
        ({"zoom": 2}, 80, False),
        ({"start": 0}, 80, False),
        ({"end": 900}, 80, False),
        ({"until": 825}, 80, False),
        ({}, 400, False),  # two columns a forward: nothing is gained
        ({"fold": True}, 400, True),
    ],
)
def test_when_a_chart_is_folded(options: dict[str, Any], width: int, expected: bool) -> None:
    """By itself where slots are narrower than two columns, but no part and no common axis; always if asked for."""
    assert folds(draw(pipesched.Gantt(scheduled("1f1b"), **options), width)) == expected


def test_small_schedules_are_drawn_whole() -> None:
    """Where less than a third would be left out, or a period comes three times only, slots may be narrow."""
    assert not folds(draw(pipesched.Gantt(scheduled("1f1b", devices=4, microbatches=8)), 50))
    thrice = scheduled("1f1b", devices=2, microbatches=5)
    fold = fold_of(thrice)
    assert fold is not None
    assert fold.steady.repeats == 3
    assert not folds(draw(pipesched.Gantt(thrice), 24))
    assert folds(draw(pipesched.Gantt(thrice, fold=True), 24))


@pytest.mark.parametrize("show_legend", [True, False])
def test_nothing_to_fold_is_said(show_legend: bool) -> None:
    """Asked for in vain, the chart is whole and a note says why; not asked for, nothing is said."""
    schedule = scheduled("1f1b", devices=4, microbatches=3)
    asked = draw(pipesched.Gantt(schedule, fold=True, show_legend=show_legend), 80)
    assert NOTHING in asked
    assert draw(pipesched.Gantt(schedule, show_legend=show_legend), 80) == asked.replace(f"{NOTHING}\n", "")


def test_few_slots_that_run_otherwise_are_counted() -> None:
    """An own order that repeats but for a few slots folds like its family, and the chart says how many they are."""
    whole = scheduled("zb-h1", devices=4, stages=4, microbatches=64)
    orders = [list(whole.plan.slots(device)) for device in range(4)]
    orders[1][100], orders[1][101] = orders[1][101], orders[1][100]
    own = schedule_plan(whole.problem, pipesched.plan(whole.problem, orders))
    assert "left out: " in draw(pipesched.Gantt(whole), 80)
    assert re.search(r"left out: \d+\.\.\d+; of them \d+ slots run otherwise", draw(pipesched.Gantt(own), 100))


def colours(chart: str, name: str) -> set[tuple[int, int, int]]:
    """The backgrounds in the row of a device."""
    row = Text.from_ansi(next(line for line in chart.splitlines() if name in line))
    styles = [span.style for span in row.spans if not isinstance(span.style, str)]
    return {tuple(style.bgcolor.get_truecolor()) for style in styles if style.bgcolor}  # type: ignore[misc]


def test_narrow_slots_are_coloured_by_kind() -> None:
    """Below two columns a slot there are as many hues as kinds, wider ones have that of their microbatch."""
    narrow = draw(pipesched.Gantt(scheduled("zb-h1")), 80, colour=True)
    assert colours(narrow, "device 0") == {colour_of(None, kind) for kind in "FIW"}
    assert "colour by kind" in narrow
    wide = draw(pipesched.Gantt(scheduled("zb-h1"), end=80), 80, colour=True)
    assert {colour_of(hue, "F") for hue in range(len(HUES))} <= colours(wide, "device 0")
    assert "microbatch " in Text.from_ansi(wide).plain


def test_charts_together_have_one_kind_of_colours() -> None:
    """One narrow chart makes all go by kind, since they share a legend."""
    both = [scheduled(name, devices=4, stages=8, microbatches=8) for name in ("1f1b", "interleaved")]
    for each in both:
        chart = draw(pipesched.Gantt(each, together=both, until=330), 80, colour=True)
        assert colours(chart, "device 0") <= {colour_of(None, kind, chunk, 2) for kind in "FB" for chunk in (0, 1)}
        assert "colour by kind" in chart


@pytest.mark.parametrize("algorithm", ["interleaved-zb", "v-half", "dualpipe-v"])
@pytest.mark.parametrize("microbatches", [16, 64])
def test_several_chunks_fold_wherever_their_order_repeats(algorithm: str, microbatches: int) -> None:
    """Also where a period of all chunks comes twice only; and what is left has its letters."""
    schedule = scheduled(algorithm, devices=4, stages=8, microbatches=microbatches)
    chart = draw(pipesched.Gantt(schedule), 80)
    assert folds(chart)
    rows = [re.sub(r" +\d+%$", "", line) for line in chart.splitlines() if line.startswith("device")]
    assert all(set(row[len("device 0 ") :]) <= set("FBIW-=~&·≈") for row in rows)


@examples(60)
@given(
    width=st.integers(20, 200),
    algorithm=st.sampled_from(["1f1b", "zb-h1", "naive", "sequential"]),
    devices=st.integers(1, 9),
    microbatches=st.integers(3, 80),
    forward=st.sampled_from([1, 5, 0.37, 100_000]),
    p2p=st.sampled_from([0, 1]),
    budget=st.sampled_from([None, 2, 30]),
    colour=st.booleans(),
)
def test_no_line_of_a_folded_chart_is_wider_than_the_terminal(
    width: int, algorithm: str, devices: int, microbatches: int, forward: float, p2p: int, budget: int | None,
    colour: bool,
) -> None:  # fmt: skip
    """Whatever the problem and the width, alone or beside others: nothing wraps, and every row has its break."""
    values = {"devices": devices, "microbatches": microbatches, "forward": forward, "p2p": p2p, "budget": budget}
    schedule, other = scheduled(algorithm, **values), scheduled("sequential", **values)
    for together in ((), (schedule, other), (other,)):
        chart = draw(pipesched.Gantt(schedule, fold=True, together=together), width, colour=colour)
        lines = Text.from_ansi(chart).plain.splitlines()
        assert max(map(cell_len, lines)) <= width
        rows = [line for line in lines if re.match(r"(device |d)\d", line)]
        assert {BREAK in row for row in rows} == {fold_of(schedule) is not None}


def test_parts_have_a_column_each() -> None:
    """A part that is far shorter than a column has one all the same, at the cost of the other."""
    parts = [Window(0, 1), Window(5_000, 15_000)]
    assert [scale.columns for scale in fit_parts(parts, 1, 50, 10_001)] == [1, 49]
    assert [scale.columns for scale in fit_parts(parts[::-1], 1, 50, 10_001)] == [49, 1]
    assert [scale.columns for scale in fit_parts(parts, 1, 50, 10**9)] == [1, 1]


def test_a_chart_beside_one_that_it_does_not_fold() -> None:
    """What stands beside a chart that folds by itself is counted on the scale of this chart."""
    one, beside = (scheduled(name, devices=3, microbatches=100, backward=2) for name in ("looped-bfs", "1f1b"))
    assert "(7 slots too short to show; zoom in)" in draw(pipesched.Gantt(one, together=[beside]), 120)
