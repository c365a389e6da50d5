"""The names of pipesched. scripts/stubs.py writes this file from the table in __init__.py."""

from typing import Any

from pipesched.analysis.explain import Explanation as Explanation, explain as explain
from pipesched.analysis.measured.timeline import (
    MeasuredCost as MeasuredCost,
    MeasuredLatency as MeasuredLatency,
    Timeline as Timeline,
    read_traces as read_traces,
)
from pipesched.analysis.robustness import (
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
from pipesched.pipeline.bounds.bounds import Bound as Bound
from pipesched.pipeline.check.check import check as check
from pipesched.pipeline.plan.plan import Plan as Plan
from pipesched.pipeline.plan.schedule import Schedule as Schedule, schedule_plan as schedule_plan
from pipesched.pipeline.plan.typed_plan import plan as plan
from pipesched.pipeline.problem.arguments import make_problem as make_problem
from pipesched.pipeline.problem.costs import Costs as Costs, Memory as Memory
from pipesched.pipeline.problem.ops import Op as Op, Pair as Pair
from pipesched.pipeline.problem.placement import Placement as Placement
from pipesched.pipeline.problem.problem import Problem as Problem
from pipesched.pipeline.problem.units import Sizes as Sizes, Slices as Slices
from pipesched.render.figure.draw import figure as figure
from pipesched.render.gantt import Gantt as Gantt
from pipesched.render.table import Table as Table
from pipesched.results.comparison import (
    Comparison as Comparison,
    Entry as Entry,
    Frontier as Frontier,
    FrontierPoint as FrontierPoint,
    Sweep as Sweep,
)
from pipesched.results.handover.hand_over import hand_over as hand_over
from pipesched.results.outcome import (
    Advice as Advice,
    BestHeuristic as BestHeuristic,
    CutChoice as CutChoice,
    CutReport as CutReport,
    Outcome as Outcome,
    Quartiles as Quartiles,
    Repetition as Repetition,
    SolveReport as SolveReport,
    Status as Status,
    StoppedBy as StoppedBy,
    TriedCut as TriedCut,
)
from pipesched.results.packing import Packing as Packing, PackingBaseline as PackingBaseline
from pipesched.results.run import run as run
from pipesched.schedulers.family import Family as Family
from pipesched.schedulers.ordering import Ordering as Ordering
from pipesched.schedulers.own import family as family
from pipesched.schedulers.registry import algorithms as algorithms
from pipesched.solver.frontier import frontier as frontier
from pipesched.solver.search import Event as Event
from pipesched.solver.solve import solve as solve
from pipesched.tuning.result import Tuning as Tuning
from pipesched.tuning.search import Progress as Progress
from pipesched.tuning.space import Parallelism as Parallelism, SpacePoint as SpacePoint
from pipesched.tuning.trial import Trial as Trial
from pipesched.tuning.tune import tune as tune
from pipesched.version import __version__ as __version__

__all__: list[str]

def __getattr__(name: str) -> Any: ...
