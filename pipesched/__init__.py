"""pipesched: schedules of pipeline-parallel training, exact metrics, lower bounds, and charts in a terminal.

>>> import pipesched
>>> problem = pipesched.make_problem(devices=4, stages=8, microbatches=8, forward=5, backward=10)
>>> outcome = pipesched.run(problem, "interleaved")
>>> outcome.schedule.makespan, outcome.bound.ticks, outcome.status
(285, 285, 'optimal')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipesched.comparison import compare as compare
    from pipesched.config.load import load_problem as load_problem
    from pipesched.errors import ConfigError as ConfigError
    from pipesched.errors import Deadlock as Deadlock
    from pipesched.errors import InvalidSchedule as InvalidSchedule
    from pipesched.errors import NoSchedule as NoSchedule
    from pipesched.errors import NotApplicable as NotApplicable
    from pipesched.errors import PipeschedError as PipeschedError
    from pipesched.outcome import Outcome as Outcome
    from pipesched.outcome import run as run
    from pipesched.pipeline.check import violations as violations
    from pipesched.pipeline.plan import Plan as Plan
    from pipesched.pipeline.problem import Problem as Problem
    from pipesched.pipeline.problem import make_problem as make_problem
    from pipesched.pipeline.schedule import Schedule as Schedule
    from pipesched.pipeline.schedule import schedule_plan as schedule_plan
    from pipesched.render.gantt import Gantt as Gantt
    from pipesched.solver.solve import solve as solve

__version__ = "0.1.0"

_HOMES = {  # public name -> module; loaded when first asked for, so that `import pipesched` costs nothing
    "ConfigError": "errors",
    "Deadlock": "errors",
    "Gantt": "render.gantt",
    "InvalidSchedule": "errors",
    "NoSchedule": "errors",
    "NotApplicable": "errors",
    "Outcome": "outcome",
    "PipeschedError": "errors",
    "Plan": "pipeline.plan",
    "Problem": "pipeline.problem",
    "Schedule": "pipeline.schedule",
    "compare": "comparison",
    "load_problem": "config.load",
    "make_problem": "pipeline.problem",
    "run": "outcome",
    "schedule_plan": "pipeline.schedule",
    "solve": "solver.solve",
    "violations": "pipeline.check",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604  the table holds the names


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pipesched' has no attribute {name!r}")
    return getattr(import_module(f"pipesched.{_HOMES[name]}"), name)
