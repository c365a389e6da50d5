"""The scatter of makespan and memory: all points, their names, and the frontier's line."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from pipesched.render.figure.frontier import Point, frontier_image

Texts = Callable[[bytes], list[str]]
POINTS = [
    Point("gis-h", 345, 3, False),
    Point("interleaved-zb", 255, 4, False),
    Point("1f1b", 330, 4, True),
    Point("naive", 330, 8, True),
    Point("list", 330, 8, True),
    Point("zb-h2", 270, 7, True),
]


def test_names_and_axes(texts: Texts) -> None:
    """Every point has its name, those at one place share one, and the axes have their units."""
    found = texts(frontier_image(POINTS, "svg", time_unit="ms", memory_unit="GB"))
    assert {"gis-h", "interleaved-zb", "1f1b", "naive, list", "zb-h2"} <= set(found)
    assert {"makespan (ms)", "peak memory of a device (GB)"} <= set(found)


def test_marks_and_stairs() -> None:
    """A mark a point, in two colours, and one line with a corner for each step of the frontier."""
    svg = frontier_image(POINTS, "svg").decode()
    groups = re.findall(r'<g id="PathCollection_\d">.*?</g>\s*</g>', svg, re.DOTALL)
    assert [group.count("<use ") for group in groups] == [4, 2]
    stairs = re.search(r'<path d="([^"]*)"[^>]*stroke: #0072b2', svg)
    assert stairs
    corners = [tuple(map(float, corner)) for corner in re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", stairs[1])]
    (left, top), (right, same), (straight, bottom) = corners
    assert left < right == straight
    assert top == same < bottom  # down the page: less time


def test_budget(texts: Texts) -> None:
    """A budget is a line with its name."""
    assert "budget" not in texts(frontier_image(POINTS, "svg"))
    svg = frontier_image(POINTS, "svg", room=5)
    assert "budget" in texts(svg)
    assert svg.count(b"stroke-dasharray") == 1


def test_bounds_say_what_is_proved(texts: Texts) -> None:
    """With bounds a mark is filled where they meet; else hollow, with a line down to the bound, and a legend."""
    proved, unproved = Point("a", 300, 3, False, 300), Point("b", 250, 4, False, 240)
    svg = frontier_image([proved, unproved], "svg")
    assert {"proved optimal", "best found", "down to the bound"} <= set(texts(svg))
    marks = re.findall(r'<use [^>]*style="fill: (#\w+); stroke: #0072b2', svg.decode())
    assert sorted(marks) == ["#0072b2", "#0072b2", "#ffffff", "#ffffff"]  # two of them in the legend
    assert set(texts(frontier_image([proved], "svg"))) & {"proved optimal", "best found"} == {"proved optimal"}
    assert "proved optimal" not in texts(frontier_image(POINTS, "svg"))


def test_the_marks_of_a_comparison_are_explained(texts: Texts) -> None:
    """Without bounds a mark is on the frontier or dominated; a legend says which, if there are both."""
    assert {"frontier", "dominated"} <= set(texts(frontier_image(POINTS, "svg")))
    alone = [point for point in POINTS if not point.dominated]
    assert {"frontier", "dominated"} & set(texts(frontier_image(alone, "svg"))) == {"frontier"}


@pytest.mark.parametrize("inches", [3.5, 7])
def test_names_do_not_cover_each_other(inches: float) -> None:
    """Names of points close together stand apart: no two lines of text at one place."""
    crowd = [Point(f"point {number}", 100 + number, 5 + number % 2 / 10, False) for number in range(8)]
    svg = frontier_image(crowd, "svg", inches=inches).decode()
    places = re.findall(r"translate\(([\d.]+) ([\d.]+)\)[^>]*>point \d", svg) or re.findall(
        r'x="([\d.]+)" y="([\d.]+)"[^>]*>point \d', svg
    )
    assert len(places) == 8
    spots = [(float(x), float(y)) for x, y in places]
    for place, (x, y) in enumerate(spots):
        for other, above in spots[:place]:
            assert abs(x - other) > 20 or abs(y - above) > 5


def test_makespans_far_apart_are_on_a_logarithmic_axis(texts: Texts) -> None:
    """An outlier does not press the others together: 250 to 345 keep a good part of the height beside 960."""
    found = texts(frontier_image([*POINTS, Point("sequential", 960, 1, False)], "svg"))
    assert {"300", "600"} <= set(found)
    assert not {"0"} & set(found)


@pytest.mark.parametrize("points", [[], POINTS[:1], [Point("nothing", 0, 0, False)] * 2], ids=len)
def test_few_points(points: list[Point]) -> None:
    """None, one, and points of no extent: still a picture, and the same one again."""
    image = frontier_image(points, "svg")
    assert b"peak memory of a device" in image
    assert image == frontier_image(points, "svg")
