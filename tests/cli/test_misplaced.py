"""`check` of a CSV in which some slots stand on a wrong device: these are the mistakes, and no others."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pipesched.errors import InvalidSchedule
from pipesched.file_formats.pytorch_csv import dump, parse
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.results.outcome import run

Cli = Callable[..., subprocess.CompletedProcess[str]]
FILE = dump(run(make_problem(devices=4, microbatches=8), "1f1b").schedule)
ROWS = [line.split(",") for line in FILE.splitlines()]


def text_of(rows: list[list[str]]) -> str:
    return "".join(",".join(row) + "\n" for row in rows)


@given(st.lists(st.integers(0, 15), min_size=1, max_size=5, unique=True), st.permutations(range(4)))
def test_a_stage_lives_where_most_of_it_runs(columns: list[int], ranks: list[int]) -> None:
    """Slots that two rows exchange are on a wrong rank, each of them, and nothing else is."""
    rows, (one, two) = [list(row) for row in ROWS], ranks[:2]
    for column in columns:
        rows[one][column], rows[two][column] = rows[two][column], rows[one][column]
    with pytest.raises(InvalidSchedule) as caught:
        parse(text_of(rows), "swapped.csv")
    wrong = [sentence for sentence in caught.value.violations if " lives on rank " in sentence]
    due = {
        f"row {here + 1}, column {column + 1}: {rows[here][column]} on rank {here},"
        f" but stage {home} lives on rank {home}"
        for column in columns
        for here, home in ((one, two), (two, one))
    }
    assert set(wrong) == due
    assert len(wrong) == len(due)


def test_two_slots_on_a_wrong_device(cli: Cli) -> None:
    """By hand: the first and the fourth column of ranks 1 and 2 are exchanged, which are four mistakes."""
    rows = [list(row) for row in ROWS]
    for column in (0, 3):
        rows[1][column], rows[2][column] = rows[2][column], rows[1][column]
    Path("swapped.csv").write_text(text_of(rows))
    result = cli("check", "swapped.csv", "--devices", "4", "--stages", "4", "--microbatches", "8")
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        "row 2, column 1: 2F0 on rank 1, but stage 2 lives on rank 2",
        "row 2, column 4: 2F2 on rank 1, but stage 2 lives on rank 2",
        "row 3, column 1: 1F0 on rank 2, but stage 1 lives on rank 1",
        "row 3, column 4: 1B0 on rank 2, but stage 1 lives on rank 1",
        "rules broken: 4",
    ]


def test_of_many_mistakes_the_first_are_printed(cli: Cli) -> None:
    """Twenty sentences and how many more there are; the document has them all."""
    rows = [[cell for cell in row if "B" not in cell] for row in ROWS]
    Path("forwards.csv").write_text(text_of(rows))
    lines = cli("check", "forwards.csv").stdout.splitlines()
    assert len(lines) == 22
    assert lines[-2:] == ["and 12 more; --json has all", "rules broken: 32"]
    violations = json.loads(cli("check", "forwards.csv", "--json").stdout)["violations"]
    assert violations[:20] == lines[:20]
    assert len(violations) == 32
