"""Schedules of the solver that tests only run: read from tests/solved/, so that no search runs for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched import Outcome, Problem
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse

FOLDER = Path(__file__).with_name("solved")


def solved(name: str, problem: Problem, **options: Any) -> Outcome:
    """What `solve` found for a problem when the file of this name was written.

    A file that is missing is written, and the test fails once: look at what was found, and commit it.
    """
    file = FOLDER / f"{name}.json"
    if not file.exists():
        file.write_text(dump(document(pipesched.solve(problem, **options))), encoding="utf-8")
        pytest.fail(f"{file.name} was missing, and is written")
    outcome = parse(file.read_text(encoding="utf-8"), file.name)
    assert outcome.problem == problem, f"{file.name} is of another problem: remove it, and it is written anew"
    return outcome
