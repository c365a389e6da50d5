"""pipesched: schedules of pipeline-parallel training, exact metrics, bounds and charts.

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

from collections.abc import Callable
from importlib import import_module
from typing import Any

from pipesched.display import register
from pipesched.version import __version__

# module -> its public names, loaded when first asked for, so that `import pipesched` costs nothing; scripts/stubs.py
# writes their types
_NAMES = {
    "analysis.explain": "Explanation explain",
    "analysis.measured.timeline": "MeasuredCost MeasuredLatency Timeline read_traces",
    "analysis.robustness": "Robustness RobustnessRow robustness",
    "comparing.compare": "compare",
    "comparing.exercise": "Grade grade",
    "comparing.packing.pack": "pack",
    "comparing.sweep": "sweep",
    "config.estimate": "estimate",
    "config.load": "load",
    "config.starter": "json_schema starter",
    "errors": (
        "ConfigError Deadlock Inexpressible InvalidSchedule NoSchedule NotApplicable PipeschedError "
        "PipeschedWarning RankFailed WorkerDied"
    ),
    "estimation.result": "Estimate",
    "estimation.trust.evidence": "Evidence Interval NearRun OutsideField SpeedRatio Trust",
    "executors.opening": "open_executor",
    "file_formats.files": "read write",
    "file_formats.registry": "Format file_format formats",
    "pipeline.problem.arguments": "make_problem",
    "pipeline.bounds.bounds": "Bound",
    "pipeline.check.check": "check",
    "pipeline.problem.costs": "Costs Memory",
    "pipeline.problem.ops": "Op Pair",
    "pipeline.problem.placement": "Placement",
    "pipeline.plan.plan": "Plan",
    "pipeline.problem.problem": "Problem",
    "pipeline.plan.schedule": "Schedule schedule_plan",
    "pipeline.plan.typed_plan": "plan",
    "pipeline.problem.units": "Sizes Slices",
    "render.figure.draw": "figure",
    "render.gantt": "Gantt",
    "render.table": "Table",
    "results.comparison": "Comparison Entry Frontier FrontierPoint Sweep",
    "results.handover.hand_over": "hand_over",
    "results.outcome": "Advice BestHeuristic CutChoice CutReport Outcome Quartiles Repetition SolveReport Status"
    " StoppedBy TriedCut",
    "results.packing": "Packing PackingBaseline",
    "results.run": "run",
    "schedulers.family": "Family",
    "schedulers.ordering": "Ordering",
    "schedulers.own": "family",
    "schedulers.registry": "algorithms",
    "solver.frontier": "frontier",
    "solver.search": "Event",
    "solver.solve": "solve",
    "tuning.result": "Tuning",
    "tuning.search": "Progress",
    "tuning.space": "Parallelism SpacePoint",
    "tuning.trial": "Trial",
    "tuning.tune": "tune",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", *sorted(_MODULES)]  # noqa: PLE0604  the table holds the names


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'pipesched' has no attribute {name!r}")
    return getattr(import_module(f"pipesched.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _of(module: str, name: str) -> Callable[..., Any]:
    """Return a function that calls one of a module, which loads then."""

    def call(*given: Any, **more: Any) -> Any:
        return getattr(import_module(f"pipesched.{module}"), name)(*given, **more)

    return call


register(
    show=_of("render.table", "mime_bundle"),
    write=_of("file_formats.files", "write"),
    read=_of("file_formats.files", "read_given"),
)
