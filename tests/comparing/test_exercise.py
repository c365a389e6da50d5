"""Exercises: a config with a task, and the verdict on a solution in points."""

from __future__ import annotations

from pathlib import Path

import pytest

import pipesched
from pipesched import grade

FOLDER = Path(__file__).parents[2] / "docs" / "tutorial" / "exercises"
TASK = "task: {say: Try., goal: 11, best: 9, hints: [first, second]}\n"
TEXT = "devices: 2\nstages: 2\nmicrobatches: 2\ncosts: {forward: 1, backward: 2}\n"
PROBLEM = pipesched.load(TEXT)
ALONE = ["0F0 0B0 0F1 0B1", "1F0 1B0 1F1 1B1"]  # makespan 12
RIGHT = ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"]  # makespan 9


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda file: file.stem)
def test_ten_exercises_have_solutions(file: Path) -> None:
    """A solve reaches the best that is known, proves it, and gets ten points; the plainest order gets fewer."""
    problem = pipesched.load(file)
    solved = pipesched.solve(problem, time_limit=60)
    verdict = grade(file, solved)
    assert (verdict.points, verdict.hint) == (10, "")
    assert verdict.reason == f"makespan {verdict.makespan} is the best that is known"
    assert solved.status == "optimal"
    assert grade(file, one_by_one(problem)).points < 5


def one_by_one(problem: pipesched.Problem) -> pipesched.Schedule:
    """Each microbatch behind the one before it, through all stages and back."""
    placed = pipesched.run(problem, "list").problem
    halves = "IW" if problem.costs.split else "B"
    rows: list[list[str]] = [[] for _ in range(problem.devices)]
    for m in range(problem.microbatches):
        back = [(stage, kind) for stage in reversed(range(problem.stages)) for kind in halves]
        for stage, kind in [*((stage, "F") for stage in range(problem.stages)), *back]:
            rows[placed.settled_placement.device(stage, m, problem.microbatches)].append(f"{stage}{kind}{m}")
    return pipesched.schedule_plan(placed, pipesched.plan(placed, rows))


def test_there_are_ten() -> None:
    """As many as the page says."""
    assert len([*FOLDER.glob("*.yaml")]) == 10


@pytest.mark.parametrize(
    ("orders", "task", "points", "said", "hint"),
    [
        (RIGHT, {}, 10, "makespan 9 is the best that is known", ""),
        (RIGHT, {"best: 9": "best: 10"}, 10, "makespan 9 is better than the best known, 10", ""),
        (ALONE, {}, 4, "makespan 12; the goal is 11", "first"),
        (ALONE, {"goal: 11": "goal: 12"}, 5, "makespan 12 reaches the goal of 12; the best that is known is", "second"),
        (ALONE, {"goal: 11": "goal: 15"}, 7, "makespan 12 reaches the goal of 15; the best that is known is", "second"),
        (RIGHT, {"devices": "memory: {budget: 1}\ndevices"}, 0, "device 0 holds 2 of 1", "first"),
        (RIGHT, {"microbatches: 2": "microbatches: 3"}, 0, "the problem has 3 microbatches", "first"),
        (RIGHT, {"stages: 2": "stages: 4"}, 0, "it has 2 stages; the exercise has 4", "first"),
        (["0F0 0F1 0I0 0W0 0I1 0W1", "1F0 1I0 1W0 1F1 1I1 1W1"], {}, 0, "it splits the backward", "first"),
        (["0F0 0F1 0B0", "1F0 1B0 1F1 1B1"], {}, 0, "the schedule breaks the rules of its problem: 0B1", "first"),
    ],
)  # fmt: skip
def test_points(orders: list[str], task: dict[str, str], points: int, said: str, hint: str) -> None:
    """Ten for the best, five for the goal, at most four beside it, and none for what is no solution, with a hint."""
    text = TASK + TEXT
    for old, new in task.items():
        text = text.replace(old, new)
    verdict = grade(text, pipesched.plan(PROBLEM, orders))
    assert (verdict.points, verdict.hint) == (points, hint)
    assert str(verdict).startswith(f"{points} of 10 points: {said}")


def test_an_exercise_is_a_config() -> None:
    """What only a verdict reads is in the way of no command."""
    assert pipesched.load(TASK + TEXT) == PROBLEM
