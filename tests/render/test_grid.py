"""Tables that have as many columns as fit: which these are, and that none is cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len
from rich.text import Text

from pipesched.render.grid import GAP, FittedTable, fitting, fitting_columns, shortened, width_of
from tests.render.conftest import Golden, draw

NAMES = [Text("1f1b"), Text("interleaved")]
ROWS: list[dict[str, Text | str]] = [
    {"\nmakespan": "330", "vs\nbest": "+15.8%", "peak\nmemory": Text("8 over")},
    {"\nmakespan": "285", "vs\nbest": "best", "peak\nmemory": Text("5")},
]
COLUMN_PRIORITY = ("\nmakespan", "peak\nmemory", "vs\nbest")


@pytest.mark.parametrize("width", [20, 28, 30, 40])
def test_a_narrow_table_has_fewer_columns(golden: Golden, width: int) -> None:
    """Columns stand in the order of the cells, and leave in the order that is told, the last first."""
    text = draw(FittedTable(NAMES, ROWS, COLUMN_PRIORITY), width)
    golden(f"fitted-{width}.txt", "".join(f"{line.rstrip()}\n" for line in text.splitlines()))


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_long_name_is_shortened(width: int) -> None:
    """It leaves all columns where short names do, keeps both ends, and is said as a whole once."""
    long = "a-schedule-whose-name-says-" + "everything-" * 8 + "at-last"
    text = draw(FittedTable([*NAMES[:1], Text(long)], ROWS, COLUMN_PRIORITY), width)
    assert [word for word in ("makespan", "best", "memory") if word in text] == ["makespan", "best", "memory"]
    assert re.search(r"^a-schedule-\S*…\S*t-last +285 +best +5$", text, re.MULTILINE)
    assert "".join(text.split("285")[1].split()).endswith(f"last:{long}")


@given(st.text(st.characters(categories=["L", "N"]), max_size=40), st.integers(1, 40))
def test_shortened(name: str, most: int) -> None:
    """No text takes more columns of the screen than it may, and one that fits is as it was."""
    found = shortened(name, most)
    assert cell_len(found) <= most
    assert (found == name) == (cell_len(name) <= most)


def test_a_title_has_the_width_of_its_longest_line() -> None:
    """Titles may be wider than cells, and wide letters take two columns."""
    assert [width_of("vs\nbest", ["1"]), width_of("a", ["123", Text("日本")]), width_of("a", [])] == [4, 4, 1]


@given(st.lists(st.integers(1, 20), max_size=8), st.integers(-5, 100))
def test_the_first_columns_fit(widths: list[int], room: int) -> None:
    """So many fit side by side, each behind a gap, and one more does not."""
    count = fitting(widths, room)
    assert count == 0 or sum(widths[:count]) + GAP * count <= room
    assert count == len(widths) or sum(widths[: count + 1]) + GAP * (count + 1) > room


def test_columns_that_are_not_told_are_not_chosen() -> None:
    """Whatever the room, only columns that are named can be shown."""
    assert fitting_columns(ROWS, ["vs\nbest"], 1000) == ["vs\nbest"]
