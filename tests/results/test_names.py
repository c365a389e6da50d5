"""A plan has a name: of its argument, its file or its function; whatever is made of its schedule says it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched import ConfigError, make_problem

PROBLEM = make_problem(devices=2, microbatches=2, forward=1, backward=2)
ORDERS = ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"]
MINE = pipesched.schedule_plan(PROBLEM, pipesched.plan(PROBLEM, ORDERS, name="my plan"))


def test_its_argument_is_said_everywhere(tmp_path: Path) -> None:
    """The document, the page, the figure, an explanation, a robustness and a comparison have the name."""
    file = pipesched.write(MINE, tmp_path / "other.json")
    assert json.loads(file.read_text())["algorithm"] == "my plan"
    again: Any = pipesched.read(file)
    assert (again.algorithm, again.schedule.name) == ("my plan", "my plan")
    assert "<title>my plan - pipesched</title>" in pipesched.write(MINE, tmp_path / "a.html").read_text()
    assert pipesched.figure(MINE).axes[0].get_title("left").startswith("my plan  2 devices")
    assert pipesched.explain(MINE).algorithm == "my plan"
    assert [row.algorithm for row in pipesched.robustness([MINE], samples=2)] == ["my plan"]
    assert pipesched.schedule_plan(PROBLEM, pipesched.plan(PROBLEM, ORDERS)).name == "plan"
    with pytest.raises(ConfigError, match="name: must be one line of text"):
        pipesched.plan(PROBLEM, ORDERS, name="two\nlines")


def test_what_it_breaks_is_told_with_it() -> None:
    """A schedule without an operation is refused by its name."""
    short = pipesched.plan(PROBLEM, ["0F0 0F1 0B0", "1F0 1B0 1F1 1B1"], name="short one")
    with pytest.raises(pipesched.InvalidSchedule, match="short one breaks the rules of its problem: 0B1 is missing"):
        pipesched.pipeline.check.check.checked(pipesched.schedule_plan(PROBLEM, short))


def test_plans_compare_by_their_names() -> None:
    """Plans in a list, or alone, have their names in a comparison; one that is an algorithm's, or taken, a number."""
    ours = pipesched.run(PROBLEM, "1f1b")
    listed = pipesched.compare(PROBLEM, ["1f1b"], plans=[MINE, MINE.plan, ours, ours.schedule])
    assert [entry.algorithm for entry in listed] == ["1f1b", "my plan", "my plan-2", "1f1b-2", "1f1b-3"]
    assert [entry.algorithm for entry in pipesched.compare(PROBLEM, plans=MINE.plan)] == ["my plan"]


def test_its_file_or_its_function_gives_it(tmp_path: Path) -> None:
    """A CSV is called as its file, a function as it is."""

    def my_own(problem: pipesched.Problem) -> list[str]:
        return ORDERS

    outcome = pipesched.run(PROBLEM, my_own)
    assert (outcome.algorithm, outcome.schedule.name) == ("my-own", "my-own")
    file = pipesched.write(MINE, tmp_path / "theirs.csv")
    read: Any = pipesched.read(file, problem=PROBLEM)
    assert (read.algorithm, read.schedule.name) == ("theirs", "theirs")
