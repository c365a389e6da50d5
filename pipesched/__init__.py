"""pipesched: schedules of pipeline-parallel training, exact metrics, lower bounds, and charts in a terminal.

>>> import pipesched
>>> problem = pipesched.make_problem(devices=4, stages=8, microbatches=8, forward=5, backward=10)
>>> outcome = pipesched.run(problem, "interleaved")
>>> outcome
Outcome('interleaved', makespan 285, optimal)
>>> outcome.schedule.makespan, outcome.lower_bound, outcome.status.value
(285, 285, 'optimal')

Everything that a command can do is a function here. Numbers are in the user's units, and every result shows itself in a
notebook.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipesched.display import show_by, write_pages_by
from pipesched.version import __version__

if TYPE_CHECKING:
    from pipesched.analysis.measured.timeline import MeasuredCost as MeasuredCost
    from pipesched.analysis.measured.timeline import Timeline as Timeline
    from pipesched.analysis.measured.timeline import read_traces as read_traces
    from pipesched.analysis.reasons.explain import explain as explain
    from pipesched.analysis.reasons.explanation import Explanation as Explanation
    from pipesched.analysis.robust.result import Robustness as Robustness
    from pipesched.analysis.robust.result import RobustnessRow as RobustnessRow
    from pipesched.analysis.robust.robustness import robustness as robustness
    from pipesched.comparing.compare import compare as compare
    from pipesched.comparing.sweep import sweep as sweep
    from pipesched.config.estimate import estimate as estimate
    from pipesched.config.load import load as load
    from pipesched.config.starter import json_schema as json_schema
    from pipesched.config.starter import starter as starter
    from pipesched.errors import ConfigError as ConfigError
    from pipesched.errors import Deadlock as Deadlock
    from pipesched.errors import Inexpressible as Inexpressible
    from pipesched.errors import InvalidSchedule as InvalidSchedule
    from pipesched.errors import NoSchedule as NoSchedule
    from pipesched.errors import NotApplicable as NotApplicable
    from pipesched.errors import PipeschedError as PipeschedError
    from pipesched.errors import PipeschedWarning as PipeschedWarning
    from pipesched.errors import RankFailed as RankFailed
    from pipesched.errors import WorkerDied as WorkerDied
    from pipesched.estimation.result import Estimate as Estimate
    from pipesched.executors.opening import open_executor as open_executor
    from pipesched.file_formats.files import read as read
    from pipesched.file_formats.files import write as write
    from pipesched.file_formats.handover.hand_over import hand_over as hand_over
    from pipesched.file_formats.registry import Format as Format
    from pipesched.file_formats.registry import formats as formats
    from pipesched.pipeline.arguments import make_problem as make_problem
    from pipesched.pipeline.bounds import Bound as Bound
    from pipesched.pipeline.check import check as check
    from pipesched.pipeline.costs import Costs as Costs
    from pipesched.pipeline.memory import Memory as Memory
    from pipesched.pipeline.ops import Op as Op
    from pipesched.pipeline.ops import Pair as Pair
    from pipesched.pipeline.placement import Placement as Placement
    from pipesched.pipeline.plan import Plan as Plan
    from pipesched.pipeline.problem import Problem as Problem
    from pipesched.pipeline.schedule import Schedule as Schedule
    from pipesched.pipeline.schedule import schedule_plan as schedule_plan
    from pipesched.pipeline.typed_plan import plan as plan
    from pipesched.render.figure.draw import figure as figure
    from pipesched.render.gantt import Gantt as Gantt
    from pipesched.render.table import Table as Table
    from pipesched.results.comparison import Comparison as Comparison
    from pipesched.results.comparison import Entry as Entry
    from pipesched.results.frontier import Frontier as Frontier
    from pipesched.results.frontier import FrontierPoint as FrontierPoint
    from pipesched.results.outcome import Advice as Advice
    from pipesched.results.outcome import BestHeuristic as BestHeuristic
    from pipesched.results.outcome import Outcome as Outcome
    from pipesched.results.outcome import Repetition as Repetition
    from pipesched.results.outcome import SolveReport as SolveReport
    from pipesched.results.outcome import run as run
    from pipesched.results.status import Status as Status
    from pipesched.results.status import StoppedBy as StoppedBy
    from pipesched.results.sweep import Sweep as Sweep
    from pipesched.schedulers.family import Family as Family
    from pipesched.schedulers.registry import algorithms as algorithms
    from pipesched.solver.frontier import frontier as frontier
    from pipesched.solver.search import Event as Event
    from pipesched.solver.solve import solve as solve
    from pipesched.tuning.point import Layout as Layout
    from pipesched.tuning.point import SpacePoint as SpacePoint
    from pipesched.tuning.result import Tuning as Tuning
    from pipesched.tuning.search import Progress as Progress
    from pipesched.tuning.trial import Trial as Trial
    from pipesched.tuning.tune import tune as tune

_MODULES = {  # public name -> module; loaded when first asked for, so that `import pipesched` costs nothing
    "Advice": "results.outcome",
    "BestHeuristic": "results.outcome",
    "Bound": "pipeline.bounds",
    "Comparison": "results.comparison",
    "ConfigError": "errors",
    "Costs": "pipeline.costs",
    "Deadlock": "errors",
    "Entry": "results.comparison",
    "Estimate": "estimation.result",
    "Event": "solver.search",
    "Explanation": "analysis.reasons.explanation",
    "Family": "schedulers.family",
    "Format": "file_formats.registry",
    "Frontier": "results.frontier",
    "FrontierPoint": "results.frontier",
    "Gantt": "render.gantt",
    "Inexpressible": "errors",
    "InvalidSchedule": "errors",
    "Layout": "tuning.point",
    "MeasuredCost": "analysis.measured.timeline",
    "Memory": "pipeline.memory",
    "NoSchedule": "errors",
    "NotApplicable": "errors",
    "Op": "pipeline.ops",
    "Outcome": "results.outcome",
    "Pair": "pipeline.ops",
    "PipeschedError": "errors",
    "PipeschedWarning": "errors",
    "Placement": "pipeline.placement",
    "Plan": "pipeline.plan",
    "Problem": "pipeline.problem",
    "Progress": "tuning.search",
    "RankFailed": "errors",
    "Repetition": "results.outcome",
    "Robustness": "analysis.robust.result",
    "RobustnessRow": "analysis.robust.result",
    "Schedule": "pipeline.schedule",
    "SolveReport": "results.outcome",
    "SpacePoint": "tuning.point",
    "Status": "results.status",
    "StoppedBy": "results.status",
    "Sweep": "results.sweep",
    "Table": "render.table",
    "Timeline": "analysis.measured.timeline",
    "Trial": "tuning.trial",
    "Tuning": "tuning.result",
    "WorkerDied": "errors",
    "algorithms": "schedulers.registry",
    "check": "pipeline.check",
    "compare": "comparing.compare",
    "estimate": "config.estimate",
    "explain": "analysis.reasons.explain",
    "figure": "render.figure.draw",
    "formats": "file_formats.registry",
    "frontier": "solver.frontier",
    "hand_over": "file_formats.handover.hand_over",
    "json_schema": "config.starter",
    "load": "config.load",
    "make_problem": "pipeline.arguments",
    "open_executor": "executors.opening",
    "plan": "pipeline.typed_plan",
    "read": "file_formats.files",
    "read_traces": "analysis.measured.timeline",
    "robustness": "analysis.robust.robustness",
    "run": "results.outcome",
    "schedule_plan": "pipeline.schedule",
    "solve": "solver.solve",
    "starter": "config.starter",
    "sweep": "comparing.sweep",
    "tune": "tuning.tune",
    "write": "file_formats.files",
}

__all__ = ["__version__", *_MODULES]  # noqa: PLE0604  the table holds the names


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'pipesched' has no attribute {name!r}")
    return getattr(import_module(f"pipesched.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _mime_bundle(result: object) -> dict[str, str]:
    bundle: dict[str, str] = import_module("pipesched.render.notebook").mime_bundle(result)
    return bundle


show_by(_mime_bundle)


def _write_page(result: object, path: str | Path, force: bool) -> Path:
    written: Path = import_module("pipesched.file_formats.files").write(result, path, format="html", force=force)
    return written


write_pages_by(_write_page)
