"""The scatter of makespan and memory: all points, their names, and the frontier's line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched.render.figure.chart import image
from pipesched.render.figure.plots import Box, Trade, frontier_figure, needs_line, place_names
from tests.render.figure.conftest import texts

POINTS = [
    Trade("gis-h", 345, 3, False),
    Trade("interleaved-zb", 255, 4, False),
    Trade("1f1b", 330, 4, True),
    Trade("naive", 330, 8, True),
    Trade("list", 330, 8, True),
    Trade("zb-h2", 270, 7, True),
]


def svg_of(points: Sequence[Trade], **given: Any) -> bytes:
    """The figure of these points as SVG."""
    return image(frontier_figure(points, **given), "svg")


def test_names_and_axes() -> None:
    """Every point has its name, those at one place share one, and the axes have their units."""
    found = texts(svg_of(POINTS, time_unit="ms", memory_unit="GB"))
    assert {"gis-h", "interleaved-zb", "1f1b", "naive, list", "zb-h2"} <= set(found)
    assert {"makespan (ms)", "peak memory of a device (GB)"} <= set(found)


def test_marks_and_stairs() -> None:
    """A mark a point, in two colours, and one line with a corner for each step of the frontier."""
    svg = svg_of(POINTS).decode()
    groups = re.findall(r'<g id="PathCollection_\d">.*?</g>\s*</g>', svg, re.DOTALL)
    assert [group.count("<use ") for group in groups] == [4, 2]
    stairs = re.search(r'<path d="([^"]*)"[^>]*stroke: #0072b2', svg)
    assert stairs
    corners = [tuple(map(float, corner)) for corner in re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", stairs[1])]
    (left, top), (right, same), (straight, bottom) = corners
    assert left < right == straight
    assert top == same < bottom  # down the page: less time


def test_budget() -> None:
    """A budget is a line with its name."""
    assert "budget" not in texts(svg_of(POINTS))
    svg = svg_of(POINTS, limit=5)
    assert "budget" in texts(svg)
    assert svg.count(b"stroke-dasharray") == 1


def test_bounds_say_what_is_proved() -> None:
    """With bounds a mark is filled where they meet; else hollow, with a line down to the bound, and a legend."""
    proved, unproved = Trade("a", 300, 3, False, 300), Trade("b", 250, 4, False, 240)
    svg = svg_of([proved, unproved])
    assert {"proved optimal", "best found", "down to the bound"} <= set(texts(svg))
    marks = re.findall(r'<use [^>]*style="fill: (#\w+); stroke: #0072b2', svg.decode())
    assert sorted(marks) == ["#0072b2", "#0072b2", "#ffffff", "#ffffff"]  # two of them in the legend
    assert set(texts(svg_of([proved]))) & {"proved optimal", "best found"} == {"proved optimal"}
    assert "proved optimal" not in texts(svg_of(POINTS))


def test_the_marks_of_a_comparison_are_explained() -> None:
    """Without bounds a mark is on the frontier or dominated; a legend says which, if there are both."""
    assert {"frontier", "dominated"} <= set(texts(svg_of(POINTS)))
    alone = [point for point in POINTS if not point.dominated]
    assert {"frontier", "dominated"} & set(texts(svg_of(alone))) == {"frontier"}


def test_makespans_far_apart_are_on_a_logarithmic_axis() -> None:
    """An outlier does not press the others together: 250 to 345 keep a good part of the height beside 960."""
    found = texts(svg_of([*POINTS, Trade("sequential", 960, 1, False)]))
    assert {"300", "600"} <= set(found)
    assert not {"0"} & set(found)


@pytest.mark.parametrize("points", [[], POINTS[:1], [Trade("nothing", 0, 0, False)] * 2], ids=len)
def test_few_points(points: list[Trade]) -> None:
    """None, one, and points of no extent: still a picture, and the same one again."""
    svg = svg_of(points)
    assert b"peak memory of a device" in svg
    assert svg == svg_of(points)


INSIDE = Box(0, 0, 400, 300)
SIZE = (30, 7)


def test_a_name_alone_stands_above_to_the_right() -> None:
    """With all the room there is the first choice is taken, and no line is needed."""
    (box,) = place_names([(100, 100)], [SIZE], [], INSIDE)
    assert box == Box(105, 105, 135, 112)
    assert not needs_line(box, (100, 100))


def test_lines_are_left_free() -> None:
    """A line where the name would stand sends it elsewhere."""
    line = Box(0, 107, 400, 109)
    (box,) = place_names([(100, 100)], [SIZE], [line], INSIDE)
    assert box.common(line) == 0


def test_no_name_stands_nearer_to_another_mark() -> None:
    """Of two marks one above the other each has its own name beside it, or a line to it."""
    marks = [(100.0, 100.0), (100.0, 96.0)]
    boxes = place_names(marks, [SIZE] * 2, [], INSIDE)
    for mark, other, box in ((marks[0], marks[1], boxes[0]), (marks[1], marks[0], boxes[1])):
        assert needs_line(box, mark) or box.distance(mark) < box.distance(other)


@given(st.lists(st.tuples(st.integers(20, 380), st.integers(20, 280)), max_size=8, unique=True))
def test_few_names_never_touch(spots: list[tuple[int, int]]) -> None:
    """Eight names or fewer, wherever their marks are: none covers another, a mark, or the edge."""
    marks = [(float(x), float(y)) for x, y in spots]
    boxes = place_names(marks, [SIZE] * len(marks), [], INSIDE)
    for place, box in enumerate(boxes):
        assert box.common(INSIDE) >= 0.999 * box.area
        assert all(box.common(other) == 0 for other in boxes[:place])
        assert all(box.distance(mark) > 0 for mark in marks)
