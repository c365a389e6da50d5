"""The scatter plot: golden texts, marks that can be read back, and lines that never wrap."""

from __future__ import annotations

import io
import re
from fractions import Fraction

import pytest
from hypothesis import example, given, strategies as st
from rich.cells import cell_len
from rich.console import Console

from pipesched.render.scatter import PLAIN, Amount, PlotPoint, Scatter, Wall
from pipesched.render.scene import round_number
from tests.render.conftest import draw

STAIRS: list[tuple[Amount, Amount]] = [(1, 90), (3, 70), (4, Fraction(129, 2)), (8, 50)]
POINTS = [
    *(PlotPoint(x, y, mark) for (x, y), mark in zip(STAIRS, "ABCD", strict=True)),
    PlotPoint(2, 180, "e"),
    PlotPoint(5, 80, "f"),
    PlotPoint(5, 80, "g"),
    PlotPoint(Fraction(13, 3), 70, "h"),
]
EXAMPLE = Scatter(POINTS, "memory (GB)", "makespan (ms)", STAIRS, walls=[Wall(6, "budget 6 GB")], ceiling=100)


def test_colour_changes_no_character() -> None:
    """With colours the plot has the same letters."""
    assert re.sub(r"\x1b\[[0-9;]*m", "", draw(EXAMPLE, 80, colour=True)) == draw(EXAMPLE, 80)


def cells_of(text: str) -> dict[str, tuple[int, int]]:
    """Where the letters of a plot stand, as (row, column) of its lines between the axes."""
    rows = [
        line.partition("│")[2] or line.partition("┤")[2]
        for line in text.splitlines()
        if re.match("[ 0-9.,]*[│┤]", line)
    ]
    return {mark: (row, column) for row, line in enumerate(rows) for column, mark in enumerate(line) if mark.isalpha()}


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=20, unique=True),
    st.integers(20, 220),
)
def test_order_of_the_values_is_the_order_of_the_marks(values: list[tuple[int, int]], width: int) -> None:
    """A larger x never stands further left, a larger y never lower, and every mark is in the plot or in the legend."""
    marks = "abcdefghijklmnopqrstuvwxyz"
    points = [PlotPoint(x, y, mark) for (x, y), mark in zip(values, marks, strict=False)]
    text = rendered(Scatter(points, "", ""), width)
    found = cells_of(text)
    listed = {mark for group in re.findall(r"= ((?:[a-z] ?)+)", text) for mark in group.split()}
    assert {point.mark for point in points} == found.keys() | listed
    shown = [point for point in points if point.mark in found]
    for one in shown:
        for other in shown:
            (row, column), (other_row, other_column) = found[one.mark], found[other.mark]
            assert one.x <= other.x or column >= other_column
            assert one.y <= other.y or row <= other_row


amounts = st.one_of(
    st.integers(0, 10**15), st.fractions(0, 100, max_denominator=9), st.sampled_from([0, 1, Fraction(1, 10**9)])
)


@given(
    points=st.lists(st.builds(PlotPoint, amounts, amounts, st.sampled_from("aBc#"), st.just(PLAIN)), max_size=12),
    corners=st.integers(0, 4),
    walls=st.lists(st.builds(Wall, amounts, st.text(max_size=30)), max_size=2),
    ceiling=st.one_of(st.none(), amounts),
    titles=st.tuples(st.text(st.characters(categories=["L", "N", "S"]), max_size=90), st.sampled_from(["", "秒" * 40])),
    width=st.integers(20, 220),
    ascii_only=st.booleans(),
)
@example([], 0, [], None, ("", ""), 20, False)
@example([PlotPoint(0, 0, "a")], 1, [Wall(0, "x")], None, ("", ""), 20, True)
def test_no_line_is_wider_than_the_terminal(
    points: list[PlotPoint], corners: int, walls: list[Wall], ceiling: int | None, titles: tuple[str, str],
    width: int, ascii_only: bool,
) -> None:  # fmt: skip
    """Whatever the values, titles and the width: nothing wraps."""
    steps = sorted({(point.x, point.y) for point in points}, key=lambda pair: (pair[0], -pair[1]))[:corners]
    walls = [wall._replace(label=re.sub(r"\s|\W", "", wall.label)) for wall in walls]
    plot = Scatter(points, *titles, steps=steps, walls=walls, ceiling=ceiling, ascii_only=ascii_only)
    lines = rendered(plot, width).splitlines()
    assert all(cell_len(line) <= width for line in lines)
    assert bool(lines) == bool(points)


def rendered(plot: Scatter, width: int) -> str:
    """`draw` for hypothesis; lines are as they are, not cut by the console."""
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    options = console.options
    return "".join(segment.text for segment in plot.__rich_console__(console, options))  # type: ignore[union-attr]


def test_far_wall_does_not_squeeze_the_points() -> None:
    """A limit far beyond all points stands in the legend, with its side."""
    points = [PlotPoint(1, 1, "a"), PlotPoint(2, 2, "b")]
    near, far = (draw(Scatter(points, "x", "y", walls=[Wall(x, "limit")]), 60) for x in (3, 30))
    assert "right of the plot" not in near
    assert "┊ limit (right of the plot)" in far
    assert far.count("┊") == 1
    assert "┊ limit (left of the plot)" in draw(Scatter(points, "x", "y", walls=[Wall(0 - 5, "limit")]), 60)


def test_what_is_off_the_scale_is_said() -> None:
    """A point above the ceiling stands in the top row, and the legend has its value."""
    text = draw(EXAMPLE, 80)
    assert re.match(r" +↑ │ +e", text.splitlines()[1])
    assert "↑ e off the scale: 180" in text


def test_a_crowded_cell_is_listed_whole_on_a_narrow_terminal() -> None:
    """Twelve equal points at 20 columns: the list goes on in a second line."""
    points = [PlotPoint(1, 1, mark) for mark in "abcdefghijkl"]
    assert draw(Scatter(points, "x", "y"), 20).endswith("a+ = a b c d e f g h\na+ = i j k l\n")


@pytest.mark.parametrize(
    ("least", "step"),
    [("1", "1"), ("1.1", "2"), ("3", "5"), ("6", "10"), ("0.03", "0.05"), ("100", "100"), ("7e8", "1e9")],
)
def test_round_number(least: str, step: str) -> None:
    """1, 2 or 5 times a power of ten, not less than asked."""
    assert round_number(Fraction(least)) == Fraction(step)
