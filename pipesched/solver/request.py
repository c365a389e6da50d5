"""What a solve is asked: its parameters as one record, which are checked when it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event as StopEvent
from typing import TYPE_CHECKING, Any

from pipesched.checks import (
    MOST_SECONDS,
    MOST_WORKERS,
    require_callable,
    require_flag,
    require_name,
    require_number,
    require_sequence,
    require_type,
    require_whole,
)
from pipesched.core.cpsat import Limits
from pipesched.errors import ConfigError
from pipesched.executors.opening import chosen
from pipesched.pipeline.bounds.memory import require_offload, require_recompute
from pipesched.pipeline.layers.recut import is_cut_open, one_way
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.kinds import MemorySavings
from pipesched.pipeline.problem.problem import Problem, require_problem
from pipesched.pipeline.problem.readers import with_budget
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.results.outcome import Outcome
from pipesched.results.run import run
from pipesched.schedulers.options import OBJECTIVES
from pipesched.schedulers.registry import is_known
from pipesched.solver.policy import DEFAULT, SolvePolicy
from pipesched.solver.search import Listener

if TYPE_CHECKING:
    from concurrent.futures import Executor

METHODS = ("auto", "portfolio", "periodic", "cpsat", "improve")


@dataclass(frozen=True, eq=False)
class SolveRequest:
    """The parameters of `solve`, and some that are not public."""

    problem: Problem
    objective: str = "makespan"
    time_limit: float = 60.0
    gap: float = 0.0
    workers: int = 0
    seed: int = 0
    placement: str | Sequence[str] | None = None
    split_backward: bool | None = None
    offload: bool = False
    recompute: bool = False
    hint: Schedule | Outcome | str | Callable[..., Any] | None = None
    method: str = "auto"
    polish: bool = True
    listener: Listener | None = None
    stop: StopEvent | None = None
    jobs: int = 1
    executor: Executor | str | None = None
    advice: bool | None = None
    budget: Any = None
    chunks: Sequence[int] | None = None
    cuts: int | None = None
    whole_limit: float | None = None  # that of a command, in seconds
    keeps_cuts: bool = False  # bounds are about the cuts that are tried alone
    policy: SolvePolicy = DEFAULT
    chooses: bool = False  # whether the costs give the whole backward beside its halves; a copy keeps it
    limits: Limits = field(init=False)
    runs: Executor | str | None = field(init=False)  # what runs it, as `chosen` says
    split_problem: Problem = field(init=False)  # with its backward whole or split, as asked
    allowed: MemorySavings = field(init=False)  # what may be done to save memory
    start: Schedule | None = field(init=False)  # the schedule to begin from

    def __post_init__(self) -> None:
        if require_problem(self.problem).slices.rule is not None:
            raise ConfigError("must be a number here: `run` finds the best one for an algorithm", "slices")
        if self.budget is not None:
            object.__setattr__(self, "problem", with_budget(self.problem, self.budget))
            object.__setattr__(self, "budget", None)  # a copy may have another problem
        if self.stop is not None:
            require_type(self.stop, StopEvent, "a threading.Event or None", "stop")
        limits = Limits(
            seconds=require_number(self.time_limit, "time_limit", most=MOST_SECONDS, above=True),
            gap=require_number(self.gap, "gap"),
            workers=require_whole(self.workers, "workers", most=MOST_WORKERS),
            seed=require_whole(self.seed, "seed", most=2**31 - 1),
            stop=self.stop,
        )
        object.__setattr__(self, "limits", limits)
        require_name(sorted(OBJECTIVES), self.objective, "objective", "objective")
        require_name(METHODS, self.method, "method", "method")
        require_callable(self.listener, "listener")
        if self.advice is not None and require_flag(self.advice, "advice") and self.objective != "makespan":
            raise ConfigError(f"compares makespans, and `objective` is {self.objective}", "advice")
        object.__setattr__(self, "chooses", self.chooses or self.problem.costs.chooses)
        if self.split_backward is not None:
            require_flag(self.split_backward, "split_backward")
            if self.problem.costs.chooses:
                object.__setattr__(self, "problem", one_way(self.problem, split=self.split_backward))
        require_flag(self.offload, "offload")
        require_flag(self.recompute, "recompute")
        require_flag(self.polish, "polish")
        problem, split = self.problem, self.split_backward
        split_problem = problem if split is None else replace(problem, costs=replace(problem.costs, split=split))
        object.__setattr__(self, "split_problem", split_problem)
        object.__setattr__(self, "allowed", MemorySavings(self.offload, self.recompute))
        self._require_effect()
        start = None
        if self.hint is not None:
            found = run(problem, self.hint) if is_known(self.hint, loads=True) else self.hint  # type: ignore[arg-type]
            object.__setattr__(self, "hint", found)
            start = found.schedule if isinstance(found, Outcome) else found
            if not isinstance(start, Schedule):
                raise ConfigError("must be a Schedule, an Outcome, or an algorithm", "hint")
        object.__setattr__(self, "start", start)
        jobs = require_whole(self.jobs, "jobs", most=MOST_WORKERS)
        object.__setattr__(self, "runs", None if jobs == 1 and self.executor is None else chosen(self.executor, jobs))
        if self.chunks is not None or self.cuts is not None:
            self._require_open_cut()

    def _require_effect(self) -> None:
        """Raise ConfigError for what does not go with the problem, or has no effect beside another argument."""
        problem = self.problem
        saving = next((name for name, given in self.allowed._asdict().items() if given), None)
        if problem.mode == FORWARD_ONLY and (saving or self.split_backward is not None):
            key = saving or "split_backward"
            raise ConfigError(f"has no effect with `mode` {FORWARD_ONLY}: no backward runs", key)
        if saving and problem.slices.count > 1:
            raise ConfigError(f"goes with whole microbatches, not with `slices` ({problem.slices.count} each)", saving)
        if self.method == "periodic" and problem.has_units:
            raise ConfigError("repeats blocks of whole microbatches that are alike, with their backwards", "method")
        if self.method == "periodic" and problem.costs.chooses:
            raise ConfigError("repeats blocks whose backwards run one way; say which with `split_backward`", "method")
        if self.method == "periodic" and problem.has_step:
            raise ConfigError("repeats blocks of passes, and knows no step beside them", "method")
        if self.offload:
            require_offload(self.split_problem)
        if self.recompute:
            require_recompute(self.split_problem)
        if saving and self.method in {"improve", "periodic"}:
            what = "local search knows" if self.method == "improve" else "blocks that repeat know"
            raise ConfigError(f"has no effect with `{saving}`: {what} only activations that are kept", "method")
        if self.method == "portfolio" and (self.workers or self.seed):
            unused = "workers" if self.workers else "seed"
            raise ConfigError("has no effect with `method` portfolio, which searches nothing", unused)

    def _require_open_cut(self) -> None:
        """Check `chunks` and `cuts`. Raises ConfigError for more than one of them where the cut is given."""
        given = () if self.chunks is None else tuple(require_sequence(self.chunks, "chunks"))
        counts = (require_whole(count, "chunks", least=1, entry=entry) for entry, count in enumerate(given))
        chunks = tuple(dict.fromkeys(counts))
        own = self.problem.devices * chunks[0] == self.problem.stages if len(chunks) == 1 else not chunks
        object.__setattr__(self, "chunks", None if own else chunks)
        if self.cuts is not None:
            require_whole(self.cuts, "cuts", least=1, most=1_000)
        if self.chunks is not None and self.problem.placement is not None:
            raise ConfigError("cannot be chosen: `placement` says where the stages of one number are", "chunks")
        if is_cut_open(self.problem):
            return
        why = "the cut is given: only a balanced layout of layers leaves it open"
        if self.chunks is not None:
            raise ConfigError(f"cannot be chosen: {why}", "chunks")
        if self.cuts not in (None, 1):
            raise ConfigError(f"must be 1, not {self.cuts}: {why}", "cuts")

    @property
    def splits_backward(self) -> bool:
        return self.split_problem.costs.split
