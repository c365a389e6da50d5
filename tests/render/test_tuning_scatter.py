"""Speed against memory: the plot of the Pareto points, and their table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipesched.render.tuning import marks, pareto_view, speed_against_memory
from pipesched.tuning.result import Tuning
from tests.render.test_tuning import text
from tests.tuning.made import MADE, NOTHING, PARETO, ROWS, layout, trial

PLOT = """\
tokens/s/GPU
       |                         ...A           :
10,000 +                   ......     o         :
       |            .......                     o
       |        B...                            :
       |       .                                :
  9000 +      .                                 :
       |     .                                  :
       |    .                                   :
  8000 +   .                                    :
       |  .                                     :
       | .                                      :
       |C                                       :
       +------------+-------------+-------------+-
                    40            60            80
                          GB of the fullest device
o other points of the table  : 80 GB of a GPU
"""


def test_the_plot() -> None:
    """Speed over memory; Pareto points are joined and have letters, the other rows do not; a wall where memory ends."""
    assert text(speed_against_memory(MADE, ascii_only=True), 50) == PLOT


def test_the_table_explains_the_marks() -> None:
    """A row for each letter, fastest first, with all its figures."""
    shown = text(pareto_view(MADE), 80)
    rows = [line.split() for line in shown.splitlines() if line[:2] in ("A ", "B ", "C ")]
    assert [(row[0], row[3], row[4], row[5]) for row in rows if row[3] != "full"] == [
        ("A", "none", "zb-h1", "10,412.3"),
        ("C", "selective", "1f1b", "7,100.0"),
    ]
    assert rows[1][:5] == ["B", "4", "2", "full", "3"]
    assert shown.startswith("llama-3-8b on 8 h100-sxm\nbest of 410,000 points searched (of 470,000): ")


def test_many_points() -> None:
    """Behind the letters all marks are alike; without other rows and without a capacity there is less of a legend."""
    many = tuple(trial(layout(2, 2, micro=1 + i), "1f1b", 9000.0 - i, 70.0 - i) for i in range(30))
    assert (marks(30)[25:], marks(2), marks(0)) == (["Z", "#", "#", "#", "#"], ["A", "B"], [])
    shown = text(pareto_view(replace(MADE, rows=many[:10], pareto=many, capacity=0.0)), 80)
    assert "other points" not in shown
    assert "GB of a GPU" not in shown


@pytest.mark.parametrize("made", [NOTHING, Tuning((), 0, 0, {})])
def test_nothing_to_plot(made: Tuning) -> None:
    """Where nothing fits, what would is shown instead."""
    assert "tokens/s/GPU" not in text(pareto_view(made), 80)


def test_one_point() -> None:
    """A single point is a plot too."""
    shown = text(pareto_view(replace(MADE, rows=ROWS[:1], pareto=PARETO[:1])), 40)
    assert "A" in shown
