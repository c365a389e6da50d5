"""Golden tables of heuristics: the table that fails where a value gets worse, its problems, and what reaches them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

from pipesched import Problem, Schedule, make_problem
from pipesched.config.hls import load_hls
from pipesched.core.tasks import TaskGraph, arrow
from pipesched.hls.schedule import assign_classes, lower, make_units
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.problem.kinds import MemorySavings
from pipesched.schedulers.block import Design, Waits, in_chunks, published_peak, v_blocks, works
from pipesched.schedulers.trials import Trials, trials
from pipesched.solver.portfolio import RULES, Pools, listed
from pipesched.solver.recompute_offload import PlainVariant, RecomputeOffloadVariant
from pipesched.solver.variant import Candidate, Variant


@dataclass(frozen=True)
class Table:
    """Golden values: for each variant of a heuristic what it alone reaches on each case.

    `reach(variant, case)` computes it anew (None: nothing found). It must be no worse: no more, or with `rising` no
    less. `limit(case)` is a value that nothing can beat, so that what only looks better fails too. Raises ValueError
    for a table that cannot fail: one without variants or cases, or without a golden value for each.
    """

    reach: Callable[[str, str], int | None]
    limit: Callable[[str], int]
    variants: Sequence[str]
    cases: Sequence[str]
    golden: Mapping[str, Sequence[int | None]]
    rising: bool = False

    takes_gaps: ClassVar[bool] = False  # while scripts/quality.py fills them

    def __post_init__(self) -> None:
        if not self.variants or not self.cases:
            raise ValueError("a table without variants or without cases never fails")
        if self.golden.keys() != set(self.variants) and not self.takes_gaps:
            differing = sorted(self.golden.keys() ^ set(self.variants))
            raise ValueError(f"rows and variants differ, in {differing}: run scripts/quality.py --write")
        for variant, row in self.golden.items():
            if (len(row) != len(self.cases) or set(row) == {None}) and not self.takes_gaps:
                raise ValueError(f"{variant}: {row} for {len(self.cases)} cases: run scripts/quality.py --write")

    @property
    def entries(self) -> list[tuple[str, str]]:
        """Return every variant with every case."""
        return list(product(self.variants, self.cases))

    def check(self, variant: str, case: str) -> None:
        """Fail if a variant is worse on a case than it was, or better than anything can be."""
        golden, limit = self.golden[variant][self.cases.index(case)], self.limit(case)
        reached = self.reach(variant, case)
        said = f"{variant}, {case}: reached {reached}, golden {golden}, limit {limit}"
        sign = -1 if self.rising else 1
        if golden is not None:
            assert reached is not None, said
            assert sign * reached <= sign * golden, said
        if reached is not None:
            assert sign * reached >= sign * limit, said


def golden_test(table: Table, *, nightly: bool = False) -> Callable[[str, str], None]:
    """Return a test that no variant of a table is worse on any case than it was."""

    @pytest.mark.parametrize(("variant", "case"), table.entries)
    def checked(variant: str, case: str) -> None:
        table.check(variant, case)

    return pytest.mark.nightly(checked) if nightly else checked


_READ: dict[str, dict[str, dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "data" / "quality_problems.json").read_text(encoding="utf-8")
)
PROBLEMS = _READ["problems"]  # uneven stages, latencies, halves that are retained, no multiple of the devices
ON_V = _READ["on v"]  # two stages a device on a V, for building blocks; with the peak of a device, in chunks
SPLIT = _READ["split"]  # one stage a device, a split backward, and a budget of so many activations
FREE = _READ["free"]  # no budget and no placement: what every family can run
SAVING = _READ["saving"]  # activations do not all fit, and may be recomputed or offloaded
TIGHT = _READ["tight"]  # the area of the budget, or residences one after another, bound the makespan
SMALL = _READ["small"]  # CP-SAT proves the optimum in a moment
SMALL_SAVING = _READ["small saving"]
UNLIKE = _READ["unlike"]  # microbatches that differ

# Random task graphs: tasks, units of each resource, a seed; and programs: adders, multipliers and their latency.
RANDOM_GRAPHS = {
    "one and one": (30, (1, 1), 18),
    "three": (30, (1, 1, 1), 15),
    "pairs": (30, (2, 2), 14),
    "mixed": (30, (2, 2, 1), 33),
    "half": (24, (1, 1, 1), 28),
    "small": (18, (1, 1, 1), 14),
}
PROGRAMS = {
    "wave filter": ("ewf", 2, 2, 2),
    "one adder": ("ewf", 1, 2, 1),
    "auto-regression": ("arf", 2, 3, 3),
    "cosine": ("dct8", 2, 3, 3),
}

DEADLINE = 1e9  # on the monotonic clock: it never comes


@cache
def graph_of(name: str) -> TaskGraph:
    """Return a random graph whose tasks wait for up to three of the six before them, or the graph of a program."""
    if name in PROGRAMS:
        program, add, mul, latency = PROGRAMS[name]
        dataflow = load_hls(str(Path(__file__).parents[1] / "configs" / "hls" / f"{program}.txt")).graph
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
    rooms = [published_peak(on_v(case), lambda _: waits) * chunk] * problem.devices
    return Design(in_chunks(drawn.problem)[0], drawn.block), trials(problem, "FIW", rooms, "span")


@cache
def split_trial(case: str) -> Trials:
    """Return trials of a case of SPLIT, in the room of its budget."""
    return trials(split(case), "FIW", [room or 0 for room in split(case).capacity_grains], "makespan")


def work_of(problem: Problem) -> int:
    """Return a lower bound on makespan and span: the work of the busiest device, in ticks."""
    return problem.microbatches * max(1, *works(problem))


@cache
def keeping(name: str, objective: str = "makespan") -> PlainVariant:
    """Return the case of a problem whose activations are all kept."""
    return PlainVariant(problem_of(name), objective)


@cache
def saving(name: str, objective: str = "makespan") -> RecomputeOffloadVariant:
    """Return the case of a problem whose activations may be recomputed, or offloaded where that has a cost."""
    problem = problem_of(name)
    return RecomputeOffloadVariant(
        problem, objective, MemorySavings(offload=problem.costs.offload is not None, recompute=True)
    )


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


def best_value(case: Variant, candidates: Iterable[Candidate]) -> int | None:
    """Return the least objective of the candidates that fit, all of which must be legal; None if none fits."""
    fitting = [checked(candidate.schedule) for candidate in candidates if candidate.schedule.fits]
    return min(map(case.value, fitting), default=None)
