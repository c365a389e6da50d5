"""The searches of high-level synthesis, as callers know them: with their arguments checked."""

from __future__ import annotations

from pipesched.checks import MOST_SECONDS, MOST_WORKERS, require_number, require_whole
from pipesched.core.cpsat import Limits
from pipesched.hls import modulo, outcome
from pipesched.hls.graph import DataflowGraph
from pipesched.hls.outcome import MOST_SEED, HardwareOutcome, RuleTable
from pipesched.hls.schedule import Units


def solve(
    graph: DataflowGraph, units: Units, *, time_limit: float = 60.0, workers: int = 0, seed: int = 0
) -> HardwareOutcome:
    """Find the schedule of the least latency. Dependences on earlier iterations do not count.

    Args:
        graph: What to schedule.
        units: What it runs on.
        time_limit: Seconds until the best so far is taken.
        workers: Threads of CP-SAT; 0: one a core. One worker and a seed repeat the answer, unless the time ends it.
        seed: Seed of the search.

    Raises:
        ConfigError: A bad argument, or an operation without a unit.
    """
    return outcome.solve(graph, units, _limits(time_limit, workers, seed))


def pipeline(
    graph: DataflowGraph, units: Units, *, time_limit: float = 60.0, workers: int = 0, seed: int = 0
) -> HardwareOutcome:
    """Find the schedule of the least initiation interval, and at that interval of the least latency.

    When the time is over before any interval has a schedule, or at Ctrl-C, it is a list schedule, repeated as soon as
    units and recurrences allow.

    Args:
        graph: The body of the loop.
        units: What it runs on.
        time_limit: As for `solve`, like `workers` and `seed`.

    Raises:
        ConfigError: A bad argument, or an operation without a unit.
        NoSchedule: An interval that is too long to be searched.
    """
    return modulo.pipeline(graph, units, _limits(time_limit, workers, seed))


def compare_rules(
    graph: DataflowGraph, units: Units, *, time_limit: float = 60.0, workers: int = 0, seed: int = 0
) -> RuleTable:
    """Return the table of every priority with every tie, beside the optimum.

    Args:
        graph: What to schedule.
        units: What it runs on.
        time_limit: As for `solve`, like `workers`: of the search for the optimum.
        seed: Seed of the search, of the random tie, and of the orders that the remarks speak of.

    Raises:
        ConfigError: A bad argument, or an operation without a unit.
    """
    return outcome.compare_rules(graph, units, _limits(time_limit, workers, seed))


def _limits(time_limit: float, workers: int, seed: int) -> Limits:
    return Limits(
        seconds=require_number(time_limit, "time_limit", most=MOST_SECONDS, above=True),
        workers=require_whole(workers, "workers", most=MOST_WORKERS),
        seed=require_whole(seed, "seed", most=MOST_SEED),
    )
