"""The named cases of the quality tables, made from their problems: cases, trials, graphs, and what bounds them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from random import Random

from pipesched.config.hardware import load_hardware
from pipesched.core.tasks import TaskGraph, arrow
from pipesched.hls.schedule import assign_classes, lower, make_units
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.kinds import Allowed
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.block import Design, Waits, busiest, in_chunks, published_peak, v_blocks
from pipesched.schedulers.trials import Trials, trials
from pipesched.solver.case import Candidate, Case
from pipesched.solver.portfolio import RULES, Pools, listed
from pipesched.solver.saving_portfolio import KeepingCase, SavingCase
from tests.quality_problems import (
    FREE,
    ON_V,
    PROBLEMS,
    PROGRAMS,
    RANDOM_GRAPHS,
    SAVING,
    SMALL,
    SMALL_SAVING,
    SPLIT,
    TIGHT,
)

DEADLINE = 1e9  # on the monotonic clock: it never comes


@cache
def graph_of(name: str) -> TaskGraph:
    """Return a random graph whose tasks wait for up to three of the six before them, or the graph of a program."""
    if name in PROGRAMS:
        program, add, mul, latency = PROGRAMS[name]
        dataflow = load_hardware(str(Path(__file__).parents[1] / "configs" / "hls" / f"{program}.txt")).graph
        units = make_units({"add": add, "mul": mul}, {"mul": latency})
        return lower(dataflow, units, assign_classes(dataflow, units))
    size, units_of, seed = RANDOM_GRAPHS[name]
    random = Random(seed)
    edges = {
        (max(task - random.randint(1, 6), 0), task) for task in range(1, size) for _ in range(random.randint(0, 3))
    }
    durations = [random.randint(1, 6) for _ in range(size)]
    resources = [random.randint(0, len(units_of) - 1) for _ in range(size)]
    return TaskGraph(durations, resources, units_of, [arrow(*edge, random.randint(0, 2)) for edge in sorted(edges)])


@cache
def problem_of(name: str) -> Problem:
    """Return the problem of a case whose placement is settled."""
    return make_problem(**(PROBLEMS | SAVING | TIGHT | SMALL | SMALL_SAVING)[name])


@cache
def on_v(name: str) -> Problem:
    """Return the problem of a case of ON_V."""
    return make_problem(stages=2 * ON_V[name]["devices"], placement="v", activation=1, **ON_V[name])


@cache
def split(name: str) -> Problem:
    """Return the problem of a case of SPLIT."""
    return make_problem(placement="linear", activation=1, **SPLIT[name])


@cache
def free(name: str) -> Problem:
    """Return the problem of a case of FREE."""
    return make_problem(**FREE[name])


DRAWN_BLOCKS = {  # of which waits, and for which costs
    "v-half, unit": (Waits(1, 0, 1, 0, top=3, backward_bottom=1), 0),
    "v-half, own": (Waits(1, 0, 1, 0, top=3, backward_bottom=1), 2),
    "v-min, unit": (Waits(0, 0, 0, 0), 0),
    "v-min, stretched": (Waits(0, 0, 0, 0), 1),
    "v-min, own": (Waits(0, 0, 0, 0), 2),
    "zb-v, between": (Waits(3, 1, 3, 1), 3),
}


@cache
def v_trial(design: str, case: str) -> tuple[Design, Trials]:
    """Return a design on a case of ON_V, with the memory that its block holds for unit costs."""
    waits, number = DRAWN_BLOCKS[design]
    drawn = v_blocks(on_v(case), waits)[number]
    problem, chunk = in_chunks(on_v(case))
    rooms = [published_peak(on_v(case), waits) * chunk] * problem.devices
    return Design(in_chunks(drawn.problem)[0], drawn.block), trials(problem, "FIW", rooms, "span")


@cache
def split_trial(case: str) -> Trials:
    """Return trials of a case of SPLIT, in the room of its budget."""
    return trials(split(case), "FIW", [room or 0 for room in split(case).capacity_grains], "makespan")


def work_of(problem: Problem) -> int:
    """Return a lower bound on makespan and span: the work of the busiest device, in ticks."""
    return problem.microbatches * busiest(problem)


@cache
def keeping(name: str, objective: str = "makespan") -> KeepingCase:
    """Return the case of a problem whose activations are all kept."""
    return KeepingCase(problem_of(name), objective)


@cache
def saving(name: str, objective: str = "makespan") -> SavingCase:
    """Return the case of a problem whose activations may be recomputed, or offloaded where that has a cost."""
    problem = problem_of(name)
    return SavingCase(problem, objective, Allowed(offload=problem.costs.offload is not None, recompute=True))


def bound_of(name: str) -> int:
    """Return a lower bound on the makespan of a case whose activations are all kept."""
    return keeping(name).bound().ticks


def limit_of_saving(name: str) -> int:
    """Return the same where activations may be recomputed or offloaded."""
    return saving(name).bound().ticks


def roomy(name: str, rule: str) -> Schedule:
    """Return the list schedule of a case by a rule under 1.5 times its budget: an order in which to save memory."""
    case = keeping(name)
    more = [None if capacity is None else 3 * capacity // 2 for capacity in case.problem.capacity_grains]
    return next(listed(case, "", Pools("", case.graph, more), RULES[rule](case))).schedule


def best_value(case: Case, candidates: Iterable[Candidate]) -> int | None:
    """Return the least objective of the candidates that fit, all of which must be legal; None if none fits."""
    fitting = [checked(candidate.schedule) for candidate in candidates if candidate.schedule.fits]
    return min(map(case.value, fitting), default=None)
