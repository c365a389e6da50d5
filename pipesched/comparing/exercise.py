"""Exercises: configs with a section `task`, and by `grade` the verdict on a solution in points."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from pipesched.checks import require_label, require_number, require_sequence
from pipesched.comparing.compare import candidates, scheduled
from pipesched.config.load import load_config
from pipesched.config.values import TASK, Source, source_of
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.check.check import over_budget
from pipesched.text.sections import Entries, Section, located
from pipesched.text.yaml_reader import parse_yaml

MOST, PASSED = 10, 5  # points: for the best that is known, and for the goal


class Task(NamedTuple):
    """The makespan to reach, and the shortest that is known; what to do, and what may help, the first thing first."""

    goal: float
    best: float
    say: str
    hints: tuple[str, ...]


class Grade(NamedTuple):
    """What a solution of an exercise is worth: `points` of 10, of which the goal is worth 5, and why.

    `makespan` is None where it is no solution. `hint` is one of the exercise's, "" for none.
    """

    points: int
    makespan: int | float | None
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.points} of {MOST} points: {self.reason}"


def read_task(source: Source) -> Task:
    """Return what the section says. Raises ConfigError without one, and for a bad value with the place of that."""
    root = parse_yaml(source.text, source.name)
    if not isinstance(root.data, dict) or TASK not in root.data:
        raise ConfigError(f"{source.name} has no `{TASK}`, so it is no exercise", "exercise")
    section = Section(root.data[TASK], source.name)
    try:
        entries = Entries(section.value, TASK, Task._fields)
        goal, best = (require_number(entries.number(key), f"{TASK}.{key}", above=True) for key in ("goal", "best"))
        if best > goal:
            raise ConfigError(f"must be at least the best known, {best:g}, not {goal:g}", f"{TASK}.goal")
        hints = require_sequence(entries.plain("hints", ()), f"{TASK}.hints")
        for key, text in (("say", say := entries.plain("say", "Make it short.")), *(("hints", one) for one in hints)):
            require_label(text, f"{TASK}.{key}")
        return Task(goal, best, say, tuple(hints))
    except ConfigError as error:
        raise located(error, {TASK: section}) from None


def grade(exercise: str | Path | Source, solution: Any) -> Grade:
    """Judge a solution of an exercise, a config with a section `task`: only its order counts.

    10 points are for the best that is known, 5 for the goal. A plan (also a Schedule, an Outcome, the name of a file)
    that breaks a rule, exceeds the budget, or is for another problem has none. Raises ConfigError.
    """
    source = exercise if isinstance(exercise, Source) else source_of(exercise)
    (goal, best, _, hints), problem = read_task(source), load_config(source, {}).problem
    [(name, given)] = candidates([solution]).items()
    first, last = (hints[0], hints[-1]) if hints else ("", "")
    try:
        schedule = scheduled(problem, name, given).schedule
        if schedule.problem.stages != problem.stages:
            raise NotApplicable(f"it has {schedule.problem.stages} stages; the exercise has {problem.stages}")
        if schedule.plan.count("I") and not problem.costs.split:
            raise NotApplicable("it splits the backward; the exercise has it whole")
        if not schedule.fits:
            raise NotApplicable(over_budget(schedule)[0])
    except NotApplicable as error:
        return Grade(0, None, str(error), first)
    makespan, said = schedule.makespan, f"makespan {schedule.makespan}"
    if makespan > goal:
        return Grade(min(int(PASSED * goal / makespan), PASSED - 1), makespan, f"{said}; the goal is {goal:g}", first)
    if makespan > best:
        points = PASSED + int((MOST - PASSED) * (goal - makespan) / (goal - best))
        return Grade(points, makespan, f"{said} reaches the goal of {goal:g}; the best that is known is {best:g}", last)
    better = "is the best that is known" if makespan == best else f"is better than the best known, {best:g}"
    return Grade(MOST, makespan, f"{said} {better}")
