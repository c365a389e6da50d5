"""Charts, summaries and comparisons of schedules whose step has more than passes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from rich.table import Table

import pipesched
from pipesched import Gantt, Outcome, Schedule, make_problem, schedule_plan
from pipesched.render.comparison import ComparisonTable
from pipesched.render.gantt import fold_of
from pipesched.render.summary import summary
from tests.render.conftest import Golden, draw
from tests.stepped import REDUCED, SHARDED, SIDE, TIED
from tests.strategies import Texts, saving_plan_of

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "tied": ("1f1b", TIED),
    "sharded": ("interleaved", SHARDED),
    "side": ("1f1b", SIDE),
}


def made(name: str) -> pipesched.Outcome:
    """The schedule of one of the cases."""
    algorithm, given = CASES[name]
    rule = {"side_rule": "first"} if given is SIDE else {}
    return pipesched.run(pipesched.make_problem(**given), algorithm, **rule)


def rows(table: Table) -> Iterator[tuple[str, ...]]:
    """The cells of a table, row by row."""
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    return zip(*columns, strict=True)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("case", [*CASES])
def test_chart_in_letters(golden: Golden, case: str, width: int) -> None:
    """A line `net` under each device, optimizers and side work as slots, their marks in the legend."""
    golden(f"step-{case}-{width}.txt", draw(Gantt(made(case), ascii_only=width == 80), width))


@pytest.mark.parametrize("case", [*CASES])
def test_chart_in_colour(golden: Golden, case: str) -> None:
    """The same in true colour: gathers, reductions and optimizers have colours of their own."""
    golden(f"step-{case}-colour.txt", draw(Gantt(made(case), memory=True), 100, colour=True))


def test_chart_in_sixteen_colours() -> None:
    """Each kind has a colour of its own there."""
    chart = draw(Gantt(made("tied")), 80, colour=True, system="standard")
    backgrounds = {part.split("m")[0].split(";")[-1] for part in chart.split("\x1b[")[1:]}
    assert {"44", "43", "103", "101", "105", "100"} <= backgrounds


@pytest.mark.parametrize("case", [*CASES])
def test_summary(golden: Golden, case: str) -> None:
    """What the step costs beside the passes, what of it is hidden, and the peak of each class of memory."""
    golden(f"step-{case}-summary.txt", draw(summary(made(case)), 100))


def test_many_exposed_operations_are_counted() -> None:
    """Of reductions after each microbatch the first few are named."""
    shard = {"level": "gradients", "reduce": "each"}
    problem = pipesched.make_problem(devices=1, microbatches=9, reduce=4, shard=shard)
    notes = [note for name, _, note in rows(summary(pipesched.run(problem, "1f1b"))) if name == "  reduce"]
    assert notes == ["12 exposed (0REDUCE_GRAD0, 0REDUCE_GRAD1, 0REDUCE_GRAD2, 0REDUCE_GRAD3, and 5 more)"]


def test_comparison_has_a_column() -> None:
    """What the network adds, where there is a step, and no such column where there is none."""
    names = ["1f1b", "zb-h1"]
    text = draw(ComparisonTable(pipesched.compare(pipesched.make_problem(**REDUCED), names)), 120)
    [row] = [line.split() for line in text.splitlines() if line.startswith("1f1b ")]
    head = text.splitlines()[1].split()
    assert row[head.index("exposed")] == "45"
    plain = draw(ComparisonTable(pipesched.compare(pipesched.make_problem(devices=2), names)), 120)
    assert "exposed" not in plain


def test_a_fold_leaves_nothing_of_the_step_out() -> None:
    """Reductions after each microbatch would be left out with the periods, so there is no fold."""
    given: dict[str, Any] = {"devices": 2, "microbatches": 64, "reduce": 1}
    assert fold_of(pipesched.run(pipesched.make_problem(**given), "1f1b").schedule) is not None
    each = {"level": "gradients", "reduce": "each"}
    assert fold_of(pipesched.run(pipesched.make_problem(**given, shard=each), "1f1b").schedule) is None


def saving(**values: Any) -> Schedule:
    """1F1B on two devices; device 0 recomputes microbatch 1 and offloads 0 and 2, device 1 offloads 1."""
    given: dict[str, Any] = {
        "devices": 2,
        "microbatches": 3,
        "forward": 4,
        "backward": 8,
        "recompute": 4,
        "offload": 4,
        "budget": 2,
    }
    problem = make_problem(**{**given, "placement": "linear", **values})
    devices = [["0F0", "0F1", "0B0", "0F2", "0R1", "0B1", "0B2"], ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2"]]
    own = [["0O0", "0O2"], ["0L0", "0L2"], ["1O1"], ["1L1"]]
    texts = Texts(devices, own, [("0R1", "0L2")])
    return schedule_plan(problem, saving_plan_of(problem, texts))


def test_summary_counts() -> None:
    """The summary says how many activations are recomputed and offloaded, of how many."""
    text = draw(summary(Outcome("by hand", saving())), 160)
    assert re.search(r"recomputed +1 of 6 ", text)
    assert re.search(r"offloaded +3 of 6 ", text)
    assert "without recompute" in text


def test_nothing_is_said_where_nothing_is_saved() -> None:
    """Lanes that stay empty have no row, and their letters no legend."""
    problem = make_problem(devices=1, microbatches=1, offload=1, placement="linear")
    schedule = schedule_plan(problem, saving_plan_of(problem, Texts([["0F0", "0B0"]], [[], []], [])))
    chart = draw(Gantt(schedule), 80)
    assert "D2H" not in chart
    assert "offload" not in chart
    assert "offloaded" in draw(summary(Outcome("x", schedule)), 100)
