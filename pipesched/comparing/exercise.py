"""The verdict on a solution of an exercise, in points."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from pipesched.comparing.contestants import contestants, scheduled
from pipesched.config.load import load_config
from pipesched.config.task import read_task
from pipesched.config.values import Source, source_of
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.check import over_budget

MOST, PASSED = 10, 5  # points: for the best that is known, and for the goal


class Verdict(NamedTuple):
    """What a solution of an exercise is worth: `points` of 10, of which the goal is worth 5.

    `makespan` is None where it is no solution, as `reason` says. `hint` is one of the exercise's, "" for none.
    """

    points: int
    makespan: int | float | None
    goal: int | float
    best: int | float
    reason: str = ""
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.points} of {MOST} points: {self.reason}"

    @property
    def passed(self) -> bool:
        """Whether the goal is reached."""
        return self.points >= PASSED


def grade(exercise: str | Path | Source, solution: Any) -> Verdict:
    """Judge a solution of an exercise: only its order counts, timed by the costs of the exercise.

    Args:
        exercise: The name or the text of a config with a section `task`.
        solution: A Plan, a Schedule, an Outcome, or the name of a file.

    Returns:
        Its verdict: 10 points for the best that is known, 5 for the goal, in between by the makespan. A plan that
        breaks a rule, exceeds the budget, or is for another problem has none.

    Raises:
        ConfigError: For a config without a task, and a file that cannot be read.
    """
    source = exercise if isinstance(exercise, Source) else source_of(exercise)
    task, problem = read_task(source), load_config(source, {}).problem
    if task is None:
        raise ConfigError(f"{source.name} has no `task`, so it is no exercise", "exercise")
    [(name, given)] = contestants(solution if isinstance(solution, dict) else [solution]).items()
    hints = (*task.hints, "")
    try:
        schedule = scheduled(problem, name, given).schedule
        if schedule.problem.stages != problem.stages:
            raise NotApplicable(f"it has {schedule.problem.stages} stages; the exercise has {problem.stages}")
        if schedule.plan.count("I") and not problem.costs.split:
            raise NotApplicable("it splits the backward; the exercise has it whole")
        if not schedule.fits:
            raise NotApplicable(over_budget(schedule)[0])
    except NotApplicable as error:
        return Verdict(0, None, task.goal, task.best, str(error), hints[0])
    makespan, said = schedule.makespan, f"makespan {schedule.makespan}"
    if makespan > task.goal:
        points = min(int(PASSED * task.goal / makespan), PASSED - 1)
        return Verdict(points, makespan, task.goal, task.best, f"{said}; the goal is {task.goal}", hints[0])
    if makespan > task.best:
        points = PASSED + int((MOST - PASSED) * (task.goal - makespan) / (task.goal - task.best))
        said += f" reaches the goal of {task.goal}; the best that is known is {task.best}"
        return Verdict(points, makespan, task.goal, task.best, said, hints[-2:][0])
    said += " is the best that is known" if makespan == task.best else f" is better than the best known, {task.best}"
    return Verdict(MOST, makespan, task.goal, task.best, said)
