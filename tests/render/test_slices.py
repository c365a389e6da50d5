"""Charts, tables and summaries of microbatches that differ, of slices, and of forward passes alone."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

import pipesched
from pipesched import Gantt, Outcome, Table
from pipesched.pipeline.problem.ops import parse_op
from pipesched.render.gantt import fold_of
from pipesched.render.palette import HUES, colour_of, place_of
from pipesched.render.summary import summary
from tests.render.conftest import Golden, draw
from tests.stepped import forwards, sized, sliced

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_slots_are_as_wide_as_they_last() -> None:
    """One column a unit of time: on device 3 forwards of 1, 2, .. and backwards of 2, 4, .. stand in turn."""
    chart = draw(Gantt(sized(), ascii_only=True), 160).splitlines()
    row = next(line for line in chart if line.startswith("device 3"))[9:]
    assert [len(slot) for slot in re.findall("[FB][-=]*", row)] == [1, 2, 2, 4, 3, 6, 4, 8, 5, 10, 6, 12]


@pytest.mark.parametrize(("width", "label", "first"), [(44, "auto", "0"), (56, "auto", "0.0"), (110, "op", "0F0.0")])
def test_labels_of_slices_by_width(width: int, label: str, first: str) -> None:
    """A slot says its slice where a column is left over, else its microbatch; or its text where that is asked for."""
    line = draw(Gantt(forwards(2, 4), label=label), width).splitlines()[3]
    assert line.split() == [
        str(slot)[-len(first) :] if "." in first else str(parse_op(str(slot)).microbatch)
        for slot in forwards(2, 4).schedule.plan.slots(0)
    ]


def test_no_labels() -> None:
    """Slots in colours hold no text where none is asked for."""
    line = draw(Gantt(forwards(2, 4), label="none"), 60, colour=True).splitlines()[2]
    assert re.sub(r"\x1b\[[\d;]*m", "", line).rstrip("·") == "d0".ljust(3 + 8 * 5)


@pytest.mark.parametrize("kind", "FBIW")
def test_shades_get_lighter(kind: str) -> None:
    """Later slices are lighter, each apart from the one before, and none is a shade of another kind."""
    for hue in range(len(HUES)):
        shades = [colour_of(hue, kind, place=place_of(part, 4)) for part in range(4)]
        assert all(sum(before) + 11 <= sum(after) for before, after in pairwise(shades))
        others = {colour_of(hue, other, place=place_of(part, 4)) for other in set("FBW") - {kind} for part in range(4)}
        assert others.isdisjoint(shades)
    assert colour_of(0, kind, place=place_of(0, 1)) == colour_of(0, kind)


def test_few_slices_of_many_in_the_legend() -> None:
    """Of more than four the first and the last."""
    assert "slice  0 .. 7 " in ANSI.sub("", draw(Gantt(forwards(2, 8)), 160, colour=True))


def test_a_period_is_of_whole_microbatches() -> None:
    """Of 32 microbatches in 4 slices one of 12 time units is drawn for all that repeat."""
    fold = fold_of(sliced(32).schedule)
    assert fold is not None
    assert (fold.steady.ticks, fold.steady.microbatches) == (12 * sliced(32).problem.ticks.per_unit, 1)
    assert "29 periods of 12 left out: 25..373" in draw(Gantt(sliced(32)), 80)


def said(outcome: Outcome) -> list[str]:
    return draw(summary(outcome), 200).splitlines()


def test_summaries() -> None:
    """The summary of forwards alone speaks of no backward and no gradient."""
    lines = said(forwards(2, 4, kv=0.25))
    assert not [line for line in lines if "backward" in line or "gradient" in line]
    assert [" ".join(lines[row].split()) for row in (0, 2)] == [
        "makespan 11 last end - first start, over all devices",
        "gap optimal makespan = lower bound",
    ]
    uneven = said(forwards(3, forward=[4, 1, 1, 1]))[1]
    assert " ".join(uneven.split()) == (
        "lower bound 15 device 0: work 12, then 3 until the last forward ends; for this placement"
    )
    assert " ".join(said(sized())[0].split()[:2]) == "makespan 103"
    assert " ".join(said(sliced(8))[0].split()[:2]) == "makespan 105"


def test_the_table_of_a_problem(golden: Golden) -> None:
    """Factors of microbatches, parts of slices and the mode stand there, and only where there are any."""
    table = draw(Table(sized(sizes={"work": [1, 2, 3], "message": [1, 1, 2]}).problem), 100)
    assert [line.split(maxsplit=1)[0] for line in table.splitlines()][3:6] == ["x", "x", "placement"]
    assert "x work        [1, 2, 3]" in table
    parts = {"count": 2, "attention": 0.5, "overhead": 1}
    given: dict[str, Any] = {"devices": 4, "microbatches": 2, "forward": 4, "kv": 0.25, "mode": "forward"}
    problem = pipesched.make_problem(**given, slices=parts)
    golden("table-of-slices.txt", "".join(f"{line.rstrip()}\n" for line in draw(Table(problem), 100).splitlines()))
    halves = {"backward_input": [0.5, 0.5], "backward_weight": [0.5, 0.5]}
    slices = pipesched.make_problem(devices=1, slices={"count": 2, "work": {"forward": [0.25, 0.75], **halves}}).slices
    assert "forward          [0.25, 0.75]" in draw(Table(slices), 100)
