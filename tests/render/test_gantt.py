"""The chart: golden texts at fixed widths, and facts that must hold at every width."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pipesched import Gantt, Schedule, make_problem, plan, run, schedule_plan
from pipesched.render.gantt import AXIS_EVERY, HALF
from pipesched.render.palette import colour_of
from tests.examples import examples
from tests.render.conftest import draw

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def scheduled(algorithm: str, **values: Any) -> Schedule:
    """The default problem, or another one, by an algorithm."""
    problem = make_problem(**{"devices": 4, "stages": 8, "microbatches": 8, "forward": 5, "backward": 10, **values})
    return run(problem, algorithm).schedule


def read_back(chart: str, columns_of_a_tick: int, chunks: int) -> list[list[tuple[str, str, int]]]:
    """What the letters of an ASCII chart say: for each device its (kind, last digit of the microbatch, start)."""
    lines = chart.splitlines()
    devices = []
    for place, line in enumerate(lines):
        name = re.match(r"(device \d+|d\d+) +", line)
        if name is None:
            continue
        gutter = len("device 0 ")
        kinds, numbers = line[gutter:], lines[place + 1][gutter:].ljust(len(line))
        slots = []
        for column, letter in enumerate(kinds.split("  ")[0]):
            if letter in "FBIW":
                slots.append((letter, numbers[column], column // columns_of_a_tick))
        devices.append(slots)
        assert chunks == 1 or re.fullmatch(r"[ 0-9]+", lines[place + 2])
    return devices


@pytest.mark.parametrize("algorithm", ["eager-1f1b", "interleaved"])
def test_every_slot_can_be_read_from_the_letters(algorithm: str) -> None:
    """Kind, microbatch and start of every operation can be read back from the ASCII chart alone."""
    schedule = scheduled(algorithm, microbatches=6, forward=1, backward=2)
    chart = draw(Gantt(schedule, ascii_only=True, show_legend=False), 200)
    columns = len(chart.splitlines()[1].strip()) // schedule.makespan_ticks
    index = schedule.plan.index
    expected = [
        [(index.op(n).kind, str(index.op(n).microbatch), schedule.start_ticks[n]) for n in order]
        for order in schedule.plan.orders
    ]
    assert read_back(chart, columns, index.stages // 4) == expected


@examples(60)
@given(
    width=st.integers(20, 220),
    devices=st.integers(1, 12),
    chunks=st.integers(1, 3),
    microbatches=st.integers(1, 24),
    forward=st.sampled_from([1, 5, "x"]),
    backward=st.sampled_from([2, 10, 100_000]),
    p2p=st.sampled_from([0, 1]),
    budget=st.sampled_from([None, 2, 30]),
    colour=st.booleans(),
    zoom=st.sampled_from([1, 1.5, 40]),
)
def test_no_line_is_ever_wider_than_the_terminal(
    width: int, devices: int, chunks: int, microbatches: int, forward: object, zoom: float,
    backward: int, p2p: int, budget: int | None, colour: bool,
) -> None:  # fmt: skip
    """Whatever the problem, the width and the zoom: nothing wraps."""
    costs: dict[str, Any] = {"forward": 0.001 if forward == "x" else forward, "backward": backward, "p2p": p2p}
    schedule = scheduled(
        "interleaved", devices=devices, stages=devices * chunks, microbatches=microbatches, budget=budget, **costs
    )
    chart = draw(Gantt(schedule, zoom=zoom), width, colour=colour)
    assert max(cell_len(ANSI.sub("", line)) for line in chart.splitlines()) <= width


def test_colour_and_letters_agree_on_what_is_idle() -> None:
    """The coloured chart is idle in exactly the columns in which the plain one is."""
    schedule = scheduled("interleaved")
    plain = [line for line in draw(Gantt(schedule), 100).splitlines() if line.startswith("device")]
    colour = [Text.from_ansi(line).plain for line in draw(Gantt(schedule), 100, colour=True).splitlines()]
    colour = [line for line in colour if line.startswith("device")]
    assert [[c == "·" for c in line] for line in plain] == [[c == "·" for c in line] for line in colour]


@pytest.mark.parametrize("devices", [16, 17])
def test_many_devices_all_print_and_repeat_the_axis(devices: int) -> None:
    """Every device has its row, and the axis stands again above every sixteenth."""
    schedule = scheduled("1f1b", devices=devices, stages=devices, microbatches=4)
    lines = draw(Gantt(schedule, ascii_only=True), 120).splitlines()
    assert [line.split()[1] for line in lines if line.startswith("device")] == [str(d) for d in range(devices)]
    assert sum("+---" in line for line in lines) == -(-devices // AXIS_EVERY)


def shares(schedule: Schedule, device: int, left: int, right: int) -> dict[str, Fraction]:
    """The share of the work between two ticks on a device that each kind has."""
    times: dict[str, int] = {}
    starts, ends = schedule.slot_start_ticks[device], schedule.slot_end_ticks[device]
    for number, start, end in zip(schedule.plan.orders[device], starts, ends, strict=True):
        if start < right and end > left:
            kind = "&" if number in schedule.plan.pairs else schedule.plan.index.op(number).kind
            times[kind] = times.get(kind, 0) + min(end, right) - max(start, left)
    return {kind: Fraction(time, sum(times.values())) for kind, time in times.items()}


@pytest.mark.parametrize("algorithm", ["zb-v", "dualpipe-v"])
def test_kinds_take_turns_in_shared_columns(algorithm: str) -> None:
    """Hundreds of slots in seventy columns: each shows a kind that is there, and each kind as often as its share."""
    schedule = scheduled(algorithm, microbatches=100, forward=3, backward=10)
    columns, length = 70, schedule.makespan_ticks
    chart = draw(Gantt(schedule, fold=False, ascii_only=True), columns + len("device 0 ") + len(" idle"))
    rows = [line[len("device 0 ") :][:columns] for line in chart.splitlines() if line.startswith("device")]
    assert "a column that several share: its kinds in turn" in chart
    for device, row in enumerate(rows):
        due: dict[str, Fraction] = dict.fromkeys("FBIW&", Fraction(0))
        for column, letter in enumerate(row):
            found = shares(schedule, device, *(length * edge // columns for edge in (column, column + 1)))
            assert letter in (found or "."), (device, column)
            due.update({kind: due[kind] + share for kind, share in found.items()})
        for kind, count in due.items():
            assert abs(row.count(kind) - count) < 2, (device, kind)


def test_half_columns_have_two_colours() -> None:
    """With colours a column is two halves, so that of three kinds in each column all are seen as often as they run."""
    schedule = scheduled("zb-h1", microbatches=300, forward=5, backward_input=5, backward_weight=5)
    chart = draw(Gantt(schedule, fold=False), 79, colour=True)
    row = Text.from_ansi(next(line for line in chart.splitlines() if "device 1" in line))
    counts = dict.fromkeys((colour_of(None, kind) for kind in "FIW"), 0)
    for place in range(len("device 1 "), 79 - len(" idle")):
        style = row.get_style_at_offset(Console(), place)
        left = style.color if row.plain[place] == HALF else style.bgcolor
        for colour in (left, style.bgcolor):
            assert colour is not None
            counts[tuple(colour.get_truecolor())] += 1  # type: ignore[index]
    assert max(counts.values()) - min(counts.values()) <= 4


def test_a_timeline_of_a_million_units_keeps_its_kinds() -> None:
    """Thousands of slots a column: forwards, backwards, and nothing where nothing runs; and the scale is said."""
    schedule = scheduled("naive", stages=4, microbatches=500, forward=700, backward=1300)
    assert schedule.makespan_ticks > 1_000_000
    lines = draw(Gantt(schedule, fold=False, ascii_only=True), 100).splitlines()
    row = next(line for line in lines if line.startswith("device 3"))
    assert re.fullmatch(r"device 3 F+B+ +\d+%", row)
    assert re.search(r"1 column = 11,\d{3}", lines[-1] + lines[-2])


@pytest.mark.parametrize(("devices", "rows", "left_out"), [(64, None, ""), (65, None, "1 device"), (65, "all", ""),
                                                           (1000, None, "936 devices"), (1000, [7], "")])  # fmt: skip
def test_of_many_devices_the_first_and_last_are_drawn(
    devices: int, rows: str | list[int] | None, left_out: str
) -> None:
    """At most 64 rows, with a line between that says how many are left out, unless rows are asked for."""
    schedule = scheduled("1f1b", devices=devices, stages=devices, microbatches=2)
    lines = draw(Gantt(schedule, ascii_only=True, rows=rows), 80).splitlines()
    drawn = [int(line.split()[1]) for line in lines if re.match(r"device \d", line)]
    between = [place for place, line in enumerate(lines) if "left out" in line]
    if not left_out:
        assert drawn == (rows if isinstance(rows, list) else list(range(devices)))
        assert not between
        return
    assert drawn == [*range(32), *range(devices - 32, devices)]
    assert [lines[place] for place in between] == [f"{left_out} left out; rows all draws them"]
    assert sum(line.startswith("device") for line in lines[: between[0]]) == 32


@pytest.mark.parametrize("width", [60, 200])
def test_16_colours_have_one_for_each_kind(width: int) -> None:
    """F, B, I, W and R have five backgrounds that differ, whether slots are wide or narrow."""
    found: dict[str, str] = {}
    for algorithm, options in (("1f1b", {"recompute": "full"}), ("zb-v", {})):
        problem = make_problem(devices=4, stages=8, microbatches=8, forward=5, backward=10, recompute=5)
        chart = draw(Gantt(run(problem, algorithm, **options)), width, colour=True, system="standard")
        for kind in "FBIWR":
            for background in re.findall(rf"\x1b\[\d+;(4\d)m {kind} \x1b", chart):
                assert found.setdefault(kind, background) == background
        rows = "".join(line for line in chart.splitlines() if line.startswith("device"))
        assert set(re.findall(r"\x1b\[\d+;(4\d)m", rows)) <= set(found.values())
    assert set(found) == set("FBIWR")
    assert len(set(found.values())) == 5


def test_window_and_zoom_show_the_part_that_was_asked_for() -> None:
    """From 150 on, four times closer: the axis starts there and slots are wide enough for their op text."""
    schedule = scheduled("1f1b", stages=4)
    chart = draw(Gantt(schedule, start=90, end=165, zoom=1), 120, colour=True)
    plain = ANSI.sub("", chart)
    assert plain.splitlines()[0].split()[0] == "90"
    assert "0B" in plain
    assert "150" in draw(Gantt(schedule, start=150, end=165, zoom=3), 120).splitlines()[0]


def test_a_pair_is_marked_in_letters_and_in_colour() -> None:
    """An overlapped forward and backward is one slot marked & with both microbatches."""
    problem = make_problem(devices=1, stages=1, microbatches=2, forward=4, backward=8, overlap=9, placement="linear")
    schedule = schedule_plan(problem, plan(problem, [["0F0", "(0F1;0B0)OVERLAP_F_B", "0B1"]]))
    letters = draw(Gantt(schedule, ascii_only=True), 80)
    assert re.search(r"F-+&=+B=+", letters)
    assert "1&0" in letters
    assert "0F1&0B0" in ANSI.sub("", draw(Gantt(schedule), 80, colour=True))
