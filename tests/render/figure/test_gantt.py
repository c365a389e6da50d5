"""The figure of a schedule shows the schedule: real pixels, real text."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched import ConfigError, Pair
from pipesched.render.palette import colour_of, place_of, stripe_of
from tests.examples import at_night_but
from tests.render.figure.conftest import GREY, IDLE, RED, image, picture, texts, texts_of
from tests.stepped import forwards, sized, sliced


def outcome(algorithm: str = "1f1b", **values: Any) -> pipesched.Outcome:
    """A small schedule: by default 1F1B on 4 devices, 8 microbatches, F 5, B 10."""
    given: dict[str, Any] = {"devices": 4, "stages": 4, "microbatches": 8, "forward": 5, "backward": 10, **values}
    return pipesched.run(pipesched.make_problem(**given), algorithm)


TINY = outcome(devices=2, stages=2, microbatches=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "made", [outcome("dualpipe-v", stages=8), outcome("zb-h1"), sized(), sliced(), forwards(2, 4)],
    ids=lambda made: f"{made.algorithm} of {made.problem.microbatches}",
)  # fmt: skip
def test_every_slot_has_its_colour(made: pipesched.Outcome) -> None:
    """In the middle of each slot is the colour of its microbatch, slice, kind and chunk; between slots is the band."""
    schedule, seen = made.schedule, picture(made)
    assert len(seen.bands) == 4
    chunks, slices = schedule.problem.stages // 4, schedule.plan.index.slices
    for device in range(4):
        before = 0.0
        for slot, start, end in schedule.timeline(device):
            middle = (start + end) / 2 / schedule.makespan
            for op, depth in ((slot[0], 0.25), (slot[1], 0.75)) if isinstance(slot, Pair) else ((slot, 0.5),):
                expected = colour_of(op.microbatch, op.kind, int(op.stage >= 4), chunks, place_of(op.slice, slices))
                if op.kind == "W":  # hatched
                    assert seen.count(expected) > 500
                else:
                    assert seen.at(device, middle, depth) == expected, f"{op} on device {device}"
            if start > before:
                assert seen.at(device, (before + start) / 2 / schedule.makespan) == IDLE
            before = end


def test_memory_is_as_high_as_its_level() -> None:
    """The strip of device 0 in 1F1B rises by one microbatch with each of its first forwards, to 4 and not over."""
    seen = picture(outcome(), memory=True, inches=3.5)
    heights = [seen.column(0, (5 * count + 2) / 165).count(GREY) for count in range(4)]
    assert heights[0] > 3
    for count, height in enumerate(heights):
        assert abs(height - (count + 1) * heights[3] / 4) <= 1.5
    assert seen.count(RED) == 0


def test_no_memory_unless_asked_or_budgeted() -> None:
    """Without a budget there is no strip; with one there is, unless refused."""
    plain, limited = outcome(), outcome(budget=4)
    assert picture(plain).count(GREY) < 50
    assert picture(limited).count(GREY) > 5000
    assert picture(limited, memory=False).count(GREY) < 50


def test_over_budget_is_red() -> None:
    """What is over the budget is red, with the name of the device and its peak, and the legend says so."""
    over = outcome("interleaved", stages=8, budget=5)
    assert picture(over).count(RED) > 500
    svg = image(over, label="none")
    assert {"peak 5.5", "peak 2.5", "over budget", "budget 5", "memory (microbatch)"} <= set(texts(svg))
    red = re.findall(r"fill: #b2182b[^>]*>([^<]+)</text>", svg.decode())
    assert red == ["device 0", "peak 5.5"]
    assert "budget 5" in texts_of(outcome(budget=5, static=2), label="none")


def test_stripes_are_lines() -> None:
    """Weight gradients are striped by lines, since not every viewer fills with patterns."""
    svg = image(outcome("zb-h1"), label="none").decode()
    assert "<pattern" not in svg
    assert stripes_in(svg, 8) >= 3 * 32 + 3


def stripes_in(svg: str, microbatches: int) -> int:
    """How many lines have the colour of stripes."""
    hues = [None, *range(microbatches)]
    colours = {"#{:02x}{:02x}{:02x}".format(*stripe_of(colour_of(hue, "W"))) for hue in hues}
    return sum(svg.count(f"stroke: {colour}; stroke-width: 0.5") for colour in colours)


def split(algorithm: str, weight: float) -> pipesched.Outcome:
    """A schedule of split backwards, whose last stage has short weight gradients."""
    costs: dict[str, Any] = {"forward": 5, "backward_input": 5, "backward_weight": [5, 5, 5, weight]}
    return pipesched.run(pipesched.make_problem(devices=4, stages=4, microbatches=8, **costs), algorithm)


@pytest.mark.parametrize(
    ("weight", "numbers", "striped"), [(5, 3, True), (2, 2, True), (0.1, 2, False)], ids=["all", "number", "nothing"]
)
def test_a_kind_has_all_or_nothing(weight: float, numbers: int, striped: bool) -> None:
    """One narrow slot leaves all of its kind without numbers, or without stripes, in the legend too."""
    svg = image(split("zb-h1", weight), inches=3.5)
    labels = texts(svg)
    assert [labels.count(str(microbatch)) for microbatch in (1, 3, 7)] == [4 * numbers] * 3
    assert (stripes_in(svg.decode(), 8) > 0) is striped


def test_slots_that_no_printer_shows_are_averaged() -> None:
    """Of 1,536 slots in seven inches a row is one even mixture; the legend says so, and shows no stripes."""
    made = outcome("zb-h1", microbatches=512)
    svg, seen = image(made, label="none"), picture(made)
    assert "averaged where narrower than 1 pt" in texts(svg)
    assert stripes_in(svg.decode(), 8) == 0
    mixed = [round(sum(parts) / 3) for parts in zip(*(colour_of(None, kind) for kind in "FIW"), strict=True)]
    for place in range(100, 900):
        colour = seen.at(1, place / 1000)
        assert max(abs(one - other) for one, other in zip(colour, mixed, strict=True)) <= 3, place


@pytest.mark.parametrize(
    ("options", "there", "gone"),
    [
        ({"title": ""}, {"forward"}, {"zb-h1  4 devices, 4 stages, 12 microbatches"}),
        (
            {"title": "One step", "legend": "none", "first_microbatch": 1, "device_name": "rank"},
            {"One step", "12", "rank 0"},
            {"device 0", "forward", "0F0"},
        ),
        ({"legend": "right"}, {"forward", "0", "11", "microbatches 0, 1, 2, .. (hues repeat after 8)"}, {"12"}),
    ],
    ids=["no title", "names", "legend at the right"],
)
def test_options_of_papers(options: dict[str, Any], there: set[str], gone: set[str]) -> None:
    """A figure has the title, the legend, the names and the numbers that a paper asks for."""
    found = set(texts_of(outcome("zb-h1", microbatches=12), **options))
    assert there <= found
    assert found.isdisjoint(gone)


def test_font_size() -> None:
    """Text is as large as asked, and rows grow with it; the width stays."""
    sizes: list[list[float]] = []
    for points in (7, 10):
        svg = image(outcome(), font_size=points).decode()
        assert f"font-size: {points - 0.5}px" in svg
        sizes += [[float(size) for size in re.findall(r'(?:width|height)="([\d.]+)pt"', svg)]]
    small, large = sizes
    assert (small[0], large[0]) == (504, 504)
    assert large[1] == pytest.approx(10 / 7 * small[1])


def test_text_stays_text() -> None:
    """An SVG holds its labels, names, title, unit and legend as text elements."""
    found = texts_of(outcome(time_unit="ms"))
    slots = [f"{stage}{kind}{microbatch}" for stage in range(4) for kind in "FB" for microbatch in range(8)]
    assert sorted(set(found) & set(slots)) == sorted(slots)
    assert {"device 0", "device 3", "time (ms)", "forward", "backward", "microbatches 0, 1, 2, .."} <= set(found)
    assert {"1f1b  4 devices, 4 stages, 8 microbatches", "makespan 165 ms, bubble 27.27%"} <= set(found)


@pytest.mark.parametrize(("label", "each"), [("microbatch", [8] * 7), ("stage", [16] * 3 + [0] * 4), ("none", [0] * 7)])
def test_labels(label: str, each: list[int]) -> None:
    """--label says what stands in the 64 slots: of each microbatch 8, of each stage 16."""
    found = texts_of(outcome(), label=label)
    assert [found.count(number) for number in "1234567"] == each


def test_labels_that_do_not_fit_are_left_out() -> None:
    """Where an op text is too long the microbatch stands, and where that is too long nothing does."""
    narrow = texts_of(outcome(), inches=3.5)
    assert "0F0" not in narrow
    assert narrow.count("7") >= 8
    crowded = texts_of(outcome(microbatches=256), inches=3.5)
    assert "255" not in crowded
    assert not {"0F0", "0F255"} & set(crowded)


def test_window() -> None:
    """A window shows its part of the time only: from 50 to 75 device 0 runs B0, F4 and most of B1."""
    seen = picture(outcome(), start=50, end=75)
    assert [seen.at(0, share) for share in (0.2, 0.5, 0.9)] == [colour_of(0, "B"), colour_of(4, "F"), colour_of(1, "B")]
    labels = {*texts_of(outcome(), start=50, end=75, label="op")}
    assert labels & {"0B0", "0F4", "0B1", "0F0", "0F5"} == {"0B0", "0F4", "0B1"}


def test_width_on_paper() -> None:
    """The figure is exactly as wide as asked: in PNG at 300 dots an inch, in SVG and PDF in points."""
    inches = 12.25
    png, svg, pdf = (image(TINY, kind, inches=inches) for kind in ("png", "svg", "pdf"))
    assert struct.unpack(">I", png[16:20])[0] == int(300 * inches)
    assert b'width="%gpt"' % (72 * inches) in svg
    assert re.search(rb"/MediaBox \[ ?0 0 %g " % (72 * inches), pdf)


def test_pdf_embeds_fonts() -> None:
    """Text in a PDF is text in an embedded TrueType font (Type 42), not outlines (Type 3)."""
    pdf = image(TINY, "pdf")
    assert pdf.startswith(b"%PDF-")
    assert b"/FontFile2" in pdf
    assert b"/Subtype /Type3" not in pdf


@pytest.mark.parametrize("kind", at_night_but(["svg"], ["svg", "png", "pdf"]))
def test_same_schedule_same_bytes(kind: str) -> None:
    """No dates, no random names, no settings of the user: drawing again gives the same file, and leaves no trace."""
    import matplotlib as mpl

    first = image(TINY, kind, memory=True)
    with mpl.rc_context({"font.size": 30, "savefig.dpi": 10, "svg.fonttype": "path", "axes.facecolor": "red"}):
        again = image(TINY, kind, memory=True)
        assert mpl.rcParams["font.size"] == 30
    assert first == again


@pytest.mark.parametrize(
    "values",
    [
        {"forward": 0, "backward": 0, "activation": 0},
        {"devices": 1, "stages": 1, "microbatches": 1},
        {"activation": 0, "budget": 1},
        {"static": 9, "budget": 1, "name": "$x_1$ <&> 模型", "time_unit": "$"},
        {"devices": 70, "stages": 70, "microbatches": 2},
    ],
    ids=str,
)
def test_edge_cases(values: dict[str, Any]) -> None:
    """Nothing that takes time, no memory, a budget below the weights, odd names, many devices: still a picture."""
    found = texts_of(outcome(**{"microbatches": 2, **values}), memory=True)
    assert "device 0" in found
    assert any(text.startswith(f"1f1b  {values.get('name', '')}") for text in found)


def test_large_schedules_are_collections() -> None:
    """8,192 operations on 64 devices are a handful of objects, not one each, and fit a page."""
    made = outcome("naive", devices=64, stages=64, microbatches=64)
    svg = image(made).decode()
    assert svg.count('<g id="PolyCollection_') < 8
    assert svg.count("<text") < 80
    height = re.search(r'height="([0-9.]+)pt"', svg)
    assert height
    assert float(height[1]) <= 9 * 72


def test_missing_matplotlib_is_one_clear_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without matplotlib the message says what to install."""
    monkeypatch.setattr("pipesched.render.figure.draw.find_spec", lambda _name: None)
    for make in (pipesched.figure, lambda one: pipesched.write(one, tmp_path / "chart.svg")):
        with pytest.raises(ConfigError, match=r"pip install 'pipesched\[plot\]'"):
            make(TINY)


def test_no_pyplot() -> None:
    """Drawing loads no pyplot, which would keep figures and pick a window system."""
    code = (
        "import sys, pipesched\n"
        "pipesched.figure(pipesched.run(pipesched.load(), '1f1b'))._repr_svg_()\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
