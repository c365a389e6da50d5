"""The figure of a comparison: charts of few or of the best on one time scale, or bars of all."""

from __future__ import annotations

import re
from itertools import chain
from typing import Any

import pytest

import pipesched
from pipesched import Comparison
from pipesched.render.palette import HUES, colour_of
from tests.render.figure.conftest import image, picture, texts, texts_of

FIVE = ("naive", "1f1b", "interleaved", "sequential", "zb-v")


def entries(*names: str, **values: Any) -> Comparison:
    """Algorithms on the built-in default."""
    given: dict[str, Any] = {"devices": 4, "stages": 8, "microbatches": 8, "forward": 5, "backward": 10, **values}
    return pipesched.compare(pipesched.make_problem(**given), names)


def test_charts_share_one_time_scale() -> None:
    """naive ends at 330 and interleaved at 285: at 300 the first is at work, and the second has ended."""
    seen = picture(entries("naive", "interleaved"))
    assert len(seen.bands) == 8
    assert (seen.at(0, 320 / 330), seen.at(3, 320 / 330)) == (colour_of(7, "B"), (240, 240, 240))
    assert seen.at(4, 280 / 330) == colour_of(7, "B", 0, 2)
    assert seen.at(4, 300 / 330) == (255, 255, 255)


def test_neighbours_have_an_edge_where_there_is_room() -> None:
    """Forwards side by side are told apart in one chart, whatever has no room for edges in another."""
    figure = pipesched.figure(entries("1f1b", "zb-v", "naive", microbatches=12), inches=2.5)
    widths: list[list[Any]] = [[one.get_linewidth() for one in axes.collections] for axes in figure.axes]
    widths = [[*chain(*found)] for found in widths]
    assert [0.4 in found for found in widths] == [True, False, True]


def test_captions_and_one_legend() -> None:
    """Each chart has its metrics above it; the time axis and the legend stand once."""
    found = texts_of(entries("naive", "1f1b", "interleaved"))
    assert {
        "naive: makespan 330, bubble 27.3%, peak 8",
        "1f1b: makespan 330, bubble 27.3%, peak 4",
        "interleaved: makespan 285, bubble 15.8%, peak 5.5",
    } <= set(found)
    assert [found.count(text) for text in ("time", "forward", "backward", "chunks 0, 1", "200")] == [1] * 5


def sizes(svg: bytes) -> tuple[float, float]:
    """Width and height of an SVG in inches."""
    found = re.findall(r'(?:width|height)="([0-9.]+)pt"', svg.decode())
    return float(found[0]) / 72, float(found[1]) / 72


@pytest.mark.parametrize(
    ("names", "values", "view", "drawn"),
    [
        (("naive", "1f1b", "interleaved"), {}, {}, ["naive", "1f1b", "interleaved"]),
        (FIVE, {}, {}, ["zb-v", "interleaved", "1f1b"]),
        (("naive", "1f1b", "zb-v"), {}, {"charts": 1}, ["zb-v"]),
        (FIVE, {}, {"charts": "all"}, [*FIVE]),
        (("1f1b", "zb-h1"), {"devices": 2, "stages": 2}, {}, ["1f1b", "zb-h1"]),
        (FIVE[1:], {"devices": 16, "stages": 32, "microbatches": 64, "budget": 20}, {}, [*FIVE[1:]]),
        (("1f1b", "zb-h1"), {"devices": 32, "stages": 32, "microbatches": 200}, {"inches": 10}, ["1f1b", "zb-h1"]),
        (("1f1b", "zb-h1"), {"devices": 8, "stages": 8, "microbatches": 48}, {"inches": 3.5}, ["1f1b", "zb-h1"]),
    ],
)
@pytest.mark.slow
def test_a_comparison_keeps_its_form(names: Any, values: Any, view: dict[str, Any], drawn: list[str]) -> None:
    """Charts one below the other, of many algorithms the best three, neither flat nor tall, whatever their size."""
    svg = image(entries(*names, **values), **view)
    captions = [text.partition(": makespan")[0] for text in texts(svg) if ": makespan" in text]
    assert captions == drawn
    width, height = sizes(svg)
    assert width == pytest.approx(view.get("inches", 7), abs=0.01)
    assert 0.3 * width < height < 1.3 * width


def test_what_is_not_drawn_is_said() -> None:
    """What is far longer than the best is cut there, and of many devices eight stand for all."""
    found = texts_of(entries("naive", "sequential"))
    assert "sequential: makespan 960, bubble 75.0%, peak 1; cut at 660, ends at 960" in found
    found = texts_of(entries("1f1b", devices=24, stages=24))
    shown = [text for text in found if text.startswith("device ")]
    assert shown == [f"device {device}" for device in (0, 3, 6, 9, 13, 16, 19, 23)]
    assert any(text.endswith("; 8 of 24 devices") for text in found)


@pytest.mark.parametrize(
    ("view", "said"),
    [({"end": 900}, "cut at 900, ends at 960"), ({"end": 1000}, ""), ({"end": 300}, "cut at 300, ends at 960"),
     ({"zoom": 2}, "cut at 330, ends at 960")],
)  # fmt: skip
def test_an_end_that_is_asked_for_is_where_charts_end(view: dict[str, float], said: str) -> None:
    """Beyond twice the best too: the axis runs so far, and a caption says every cut."""
    found = texts_of(entries("naive", "sequential"), **view)
    caption = next(text for text in found if text.startswith("sequential: "))
    assert caption.partition("; ")[2] == said
    ends = min(int(view.get("end", 330)), 960)
    assert ends - 200 < max(int(text) for text in found if text.isdigit()) <= ends


def test_thin_slots_are_coloured_by_kind() -> None:
    """Where a number of a microbatch has no room its hue says nothing: kinds have hues, and no number is written."""
    svg = image(entries("1f1b", "zb-h1", devices=8, stages=8, microbatches=48))
    fills = set(re.findall(r"fill: (#[0-9a-f]{6})", svg.decode()))
    assert {"#{:02x}{:02x}{:02x}".format(*colour_of(None, kind)) for kind in "FIW"} <= fills
    assert "#{:02x}{:02x}{:02x}".format(*colour_of(3, "F")) not in fills
    found = texts(svg)
    assert [found.count(text) for text in ("forward", "backward", "input gradient", "weight gradient")] == [1] * 4
    assert not any(text.startswith("microbatches ") for text in found)


def test_bars_of_all() -> None:
    """Without charts each algorithm is a row of bars with its figures; what does not apply is left out."""
    names = ("naive", "1f1b", "interleaved", "looped-bfs", "zb-h1", "dualpipe", "chimera", "hanayo", "list")
    shown = entries(*names, microbatches=5)  # odd: not for dualpipe
    applicable = [entry.algorithm for entry in shown if entry.outcome]
    assert len(applicable) < len(shown)
    found = texts_of(shown, charts=0)
    assert [text for text in found if text in names] == applicable
    assert {"makespan", "bubble (%)", "peak memory (microbatch)"} <= set(found)
    for entry in shown:
        if entry.outcome:
            assert f"{entry.outcome.schedule.makespan_ticks:g}" in found
            assert f"{100 * entry.outcome.schedule.bubble:.1f}" in found


def test_bars_mark_the_best_and_those_over_budget() -> None:
    """The shortest that fits is green in all three panels, what is over the budget red."""
    shown = Comparison(tuple(entries("naive", "1f1b", "interleaved", budget=4)) * 3)
    svg = image(shown, charts=0).decode()
    green = "#{:02x}{:02x}{:02x}".format(*HUES[2])
    assert svg.count(f"fill: {green}") == 3 * 3 + 1  # and the legend
    assert svg.count("fill: #b2182b") == 3 * 6 + 1
    assert {"shortest that fits the budget", "others", "over budget"} <= set(texts(svg.encode()))
