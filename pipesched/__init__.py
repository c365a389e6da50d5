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

from pipesched.display import read_by, show_by, write_pages_by
from pipesched.version import __version__

if TYPE_CHECKING:
    from pipesched.analysis.measured.measured_step import MeasuredLatency as MeasuredLatency
    from pipesched.analysis.measured.timeline import (
        MeasuredCost as MeasuredCost,
        Timeline as Timeline,
        read_traces as read_traces,
    )
    from pipesched.analysis.reasons.explain import explain as explain
    from pipesched.analysis.reasons.explanation import Explanation as Explanation
    from pipesched.analysis.robust.robustness import (
        Robustness as Robustness,
        RobustnessRow as RobustnessRow,
        robustness as robustness,
    )
    from pipesched.comparing.compare import compare as compare
    from pipesched.comparing.exercise import Grade as Grade, grade as grade
    from pipesched.comparing.packing.pack import pack as pack
    from pipesched.comparing.sweep import sweep as sweep
    from pipesched.config.estimate import estimate as estimate
    from pipesched.config.load import load as load
    from pipesched.config.starter import json_schema as json_schema, starter as starter
    from pipesched.errors import (
        ConfigError as ConfigError,
        Deadlock as Deadlock,
        Inexpressible as Inexpressible,
        InvalidSchedule as InvalidSchedule,
        NoSchedule as NoSchedule,
        NotApplicable as NotApplicable,
        PipeschedError as PipeschedError,
        PipeschedWarning as PipeschedWarning,
        RankFailed as RankFailed,
        WorkerDied as WorkerDied,
    )
    from pipesched.estimation.result import Estimate as Estimate
    from pipesched.estimation.trust.evidence import (
        Evidence as Evidence,
        Interval as Interval,
        NearRun as NearRun,
        OutsideField as OutsideField,
        SpeedRatio as SpeedRatio,
        Trust as Trust,
    )
    from pipesched.executors.opening import open_executor as open_executor
    from pipesched.file_formats.files import read as read, write as write
    from pipesched.file_formats.registry import Format as Format, file_format as file_format, formats as formats
    from pipesched.pipeline.arguments import make_problem as make_problem
    from pipesched.pipeline.bounds import Bound as Bound
    from pipesched.pipeline.check import check as check
    from pipesched.pipeline.costs import Costs as Costs
    from pipesched.pipeline.memory import Memory as Memory
    from pipesched.pipeline.ops import Op as Op, Pair as Pair
    from pipesched.pipeline.placement import Placement as Placement
    from pipesched.pipeline.plan import Plan as Plan
    from pipesched.pipeline.problem import Problem as Problem
    from pipesched.pipeline.schedule import Schedule as Schedule, schedule_plan as schedule_plan
    from pipesched.pipeline.typed_plan import plan as plan
    from pipesched.pipeline.units import Sizes as Sizes, Slices as Slices
    from pipesched.render.figure.draw import figure as figure
    from pipesched.render.gantt import Gantt as Gantt
    from pipesched.render.table import Table as Table
    from pipesched.results.best_cut import CutChoice as CutChoice
    from pipesched.results.comparison import Comparison as Comparison, Entry as Entry, Sweep as Sweep
    from pipesched.results.cuts import CutReport as CutReport, TriedCut as TriedCut
    from pipesched.results.frontier import Frontier as Frontier, FrontierPoint as FrontierPoint
    from pipesched.results.handover.hand_over import hand_over as hand_over
    from pipesched.results.outcome import (
        Advice as Advice,
        BestHeuristic as BestHeuristic,
        Outcome as Outcome,
        Quartiles as Quartiles,
        Repetition as Repetition,
        SolveReport as SolveReport,
        run as run,
    )
    from pipesched.results.packing import Packing as Packing, PackingBaseline as PackingBaseline
    from pipesched.results.status import Status as Status, StoppedBy as StoppedBy
    from pipesched.schedulers.family import Family as Family
    from pipesched.schedulers.feeding.ordering import Ordering as Ordering
    from pipesched.schedulers.own import family as family
    from pipesched.schedulers.registry import algorithms as algorithms
    from pipesched.solver.frontier import frontier as frontier
    from pipesched.solver.search import Event as Event
    from pipesched.solver.solve import solve as solve
    from pipesched.tuning.result import Tuning as Tuning
    from pipesched.tuning.search import Progress as Progress
    from pipesched.tuning.space import Layout as Layout, SpacePoint as SpacePoint
    from pipesched.tuning.trial import Trial as Trial
    from pipesched.tuning.tune import tune as tune

_NAMES = {  # module -> its public names; loaded when first asked for, so that `import pipesched` costs nothing
    "analysis.measured.measured_step": "MeasuredLatency",
    "analysis.measured.timeline": "MeasuredCost Timeline read_traces",
    "analysis.reasons.explain": "explain",
    "analysis.reasons.explanation": "Explanation",
    "analysis.robust.robustness": "Robustness RobustnessRow robustness",
    "comparing.compare": "compare",
    "comparing.exercise": "Grade grade",
    "comparing.packing.pack": "pack",
    "comparing.sweep": "sweep",
    "config.estimate": "estimate",
    "config.load": "load",
    "config.starter": "json_schema starter",
    "errors": (
        "ConfigError Deadlock Inexpressible InvalidSchedule NoSchedule NotApplicable PipeschedError PipeschedWarning "
        "RankFailed WorkerDied"
    ),
    "estimation.result": "Estimate",
    "estimation.trust.evidence": "Evidence Interval NearRun OutsideField SpeedRatio Trust",
    "executors.opening": "open_executor",
    "file_formats.files": "read write",
    "results.handover.hand_over": "hand_over",
    "file_formats.registry": "Format file_format formats",
    "pipeline.arguments": "make_problem",
    "pipeline.bounds": "Bound",
    "pipeline.check": "check",
    "pipeline.costs": "Costs",
    "pipeline.memory": "Memory",
    "pipeline.ops": "Op Pair",
    "pipeline.placement": "Placement",
    "pipeline.plan": "Plan",
    "pipeline.problem": "Problem",
    "pipeline.schedule": "Schedule schedule_plan",
    "pipeline.typed_plan": "plan",
    "pipeline.units": "Sizes Slices",
    "render.figure.draw": "figure",
    "render.gantt": "Gantt",
    "render.table": "Table",
    "results.comparison": "Comparison Entry Sweep",
    "results.best_cut": "CutChoice",
    "results.cuts": "CutReport TriedCut",
    "results.frontier": "Frontier FrontierPoint",
    "results.outcome": "Advice BestHeuristic Outcome Quartiles Repetition SolveReport run",
    "results.packing": "Packing PackingBaseline",
    "results.status": "Status StoppedBy",
    "schedulers.family": "Family",
    "schedulers.feeding.ordering": "Ordering",
    "schedulers.own": "family",
    "schedulers.registry": "algorithms",
    "solver.frontier": "frontier",
    "solver.search": "Event",
    "solver.solve": "solve",
    "tuning.result": "Tuning",
    "tuning.search": "Progress",
    "tuning.space": "Layout SpacePoint",
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


def _mime_bundle(result: object) -> dict[str, str]:
    bundle: dict[str, str] = import_module("pipesched.render.notebook").mime_bundle(result)
    return bundle


show_by(_mime_bundle)


def _write_page(result: object, path: str | Path, force: bool) -> Path:
    written: Path = import_module("pipesched.file_formats.files").write(result, path, format="html", force=force)
    return written


write_pages_by(_write_page)


def _from_file(value: Any, problem: Any, key: str, entry: int | None) -> Any:
    return import_module("pipesched.file_formats.files").read_given(value, problem, key, entry)


read_by(_from_file)
