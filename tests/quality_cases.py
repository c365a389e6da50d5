"""The named cases of the quality tables, and the tables: golden values that a heuristic must go on reaching.

`scripts/quality.py` prints what differs from every table, and writes it there after an improvement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from pipesched.config.hardware import load_hardware
from pipesched.core.tasks import TaskGraph, arrow
from pipesched.hls.lowering import lower
from pipesched.hls.units import assign_classes, make_units
from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.check import checked
from pipesched.pipeline.kinds import Allowed
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule
from pipesched.schedulers.best_block import Design
from pipesched.schedulers.block import busiest, in_chunks
from pipesched.schedulers.trials import Trials, trials
from pipesched.schedulers.v_block import Waits, published_peak, v_blocks
from pipesched.solver.candidate import Candidate
from pipesched.solver.case import Case
from pipesched.solver.keeping import KeepingCase
from pipesched.solver.portfolio import Pools, listed
from pipesched.solver.rules import RULES
from pipesched.solver.saving import SavingCase

UNIT = {"forward": 1, "backward_input": 1, "backward_weight": 1}

# Uneven stages, latencies, halves that are retained, and microbatches that are no multiple of the devices.
PROBLEMS: dict[str, dict[str, Any]] = {
    "linear": {**UNIT, "devices": 4, "microbatches": 8, "placement": "linear", "budget": 3},
    "uneven linear": {
        "devices": 4,
        "microbatches": 9,
        "placement": "linear",
        "forward": [5, 3, 4, 6],
        "backward_input": [6, 3, 5, 7],
        "backward_weight": [3, 2, 2, 4],
        "p2p": [1, 2, 1],
        "activation": [3, 2, 2, 4],
        "retain": [0.5, 0.5, 1, 0.25],
        "budget": [9, 7, 6, 8],
    },
    "latency": {
        "devices": 5,
        "microbatches": 11,
        "placement": "linear",
        "forward": 4,
        "backward": 7,
        "p2p": 3,
        "activation": 1,
        "budget": 4,
    },
    "v": {**UNIT, "devices": 4, "stages": 8, "microbatches": 8, "placement": "v", "activation": 1, "budget": 5},
    "uneven v": {
        "devices": 3,
        "stages": 6,
        "microbatches": 7,
        "placement": "v",
        "forward": [4, 5, 3, 4, 6, 5],
        "backward_input": [5, 5, 4, 3, 7, 6],
        "backward_weight": [3, 2, 4, 3, 2, 5],
        "p2p": 1,
        "activation": [2, 1, 3, 2, 1, 2],
        "retain": 0.5,
        "budget": [10, 6, 11],
    },
    "loop": {
        "devices": 4,
        "stages": 8,
        "microbatches": 8,
        "placement": "loop",
        "forward": 1,
        "backward": 2,
        "activation": 1,
        "budget": 6,
    },
    "uneven loop": {
        "devices": 3,
        "stages": 9,
        "microbatches": 7,
        "placement": "loop",
        "forward": [3, 2, 4, 3, 5, 2, 3, 3, 6],
        "backward_input": [4, 2, 5, 3, 4, 3, 4, 3, 6],
        "backward_weight": [2, 3, 2, 2, 4, 1, 3, 2, 5],
        "p2p": [1, 0, 2, 1, 1, 0, 2, 1],
        "activation": [2, 1, 1, 2, 3, 1, 1, 2, 2],
        "retain": 0.5,
        "budget": [11, 13, 9],
    },
    "wave": {
        "devices": 3,
        "stages": 12,
        "microbatches": 5,
        "placement": "wave",
        "forward": 3,
        "backward_input": 2,
        "backward_weight": 4,
        "p2p": 1,
        "activation": 1,
        "budget": 10,
    },
    "scattered": {
        "devices": 3,
        "stages": 6,
        "microbatches": 8,
        "placement": [0, 1, 2, 1, 0, 2],
        "forward": [2, 3, 2, 4, 3, 2],
        "backward": [5, 6, 3, 7, 6, 4],
        "p2p": 1,
        "activation": 1,
        "budget": [5, 6, 4],
    },
    "two directions": {
        "devices": 4,
        "microbatches": 7,
        "placement": "bidirectional",
        "forward": [4, 3, 5, 4],
        "backward_input": [5, 4, 5, 4],
        "backward_weight": [3, 3, 4, 2],
        "p2p": 1,
        "activation": 1,
        "budget": 5,
    },
}


# Two stages a device on a V, for building blocks; with the peak that a device may hold, in chunks.
ON_V: dict[str, dict[str, Any]] = {
    "alike": {**UNIT, "devices": 4, "microbatches": 9},
    "long forwards": {"devices": 4, "microbatches": 7, "forward": 7, "backward_input": 5, "backward_weight": 3},
    "long weights": {"devices": 3, "microbatches": 8, "forward": 3, "backward_input": 4, "backward_weight": 7},
    "latency": {"devices": 4, "microbatches": 10, "forward": 6, "backward_input": 6, "backward_weight": 4, "p2p": 3},
    "uneven": {
        "devices": 3,
        "microbatches": 7,
        "forward": [4, 5, 3, 4, 6, 5],
        "backward_input": [5, 5, 4, 3, 7, 6],
        "backward_weight": [3, 2, 4, 3, 2, 5],
        "p2p": [1, 2, 0, 2, 1],
    },
    "five devices": {
        "devices": 5,
        "microbatches": 12,
        "forward": [12, *[10] * 8, 15],
        "backward_input": [12, *[10] * 8, 17],
        "backward_weight": [8, *[7] * 8, 12],
        "p2p": 1,
        "retain": 0.5,
    },
}

# One stage a device, a split backward, and a budget of so many activations.
SPLIT: dict[str, dict[str, Any]] = {
    "alike": {**UNIT, "devices": 4, "microbatches": 8, "budget": 5},
    "tight": {**UNIT, "devices": 4, "microbatches": 9, "budget": 2},
    "article": {
        "devices": 8,
        "microbatches": 12,
        "forward": 185,
        "backward_input": 181,
        "backward_weight": 93,
        "p2p": 6,
        "retain": 0.4,
        "budget": 8,
    },
    "long weights": {
        "devices": 4,
        "microbatches": 7,
        "forward": 4,
        "backward_input": 5,
        "backward_weight": 9,
        "p2p": 1,
        "retain": 0.5,
        "budget": 6,
    },
    "uneven": {
        "devices": 4,
        "microbatches": 9,
        "forward": [5, 3, 4, 6],
        "backward_input": [6, 3, 5, 7],
        "backward_weight": [3, 2, 2, 4],
        "p2p": [1, 2, 1],
        "retain": [0.5, 0.5, 1, 0.25],
        "budget": [5, 4, 5, 3],
    },
    "latency": {
        "devices": 5,
        "microbatches": 11,
        "forward": 4,
        "backward_input": 4,
        "backward_weight": 3,
        "p2p": 3,
        "budget": [10, 8, 6, 4, 2],
    },
    "roomy": {
        "devices": 6,
        "microbatches": 6,
        "forward": 9,
        "backward_input": 7,
        "backward_weight": 9,
        "budget": 11,
    },
}

# No budget and no placement: what every family can run.
FREE: dict[str, dict[str, Any]] = {
    "one stage a device": {**UNIT, "devices": 4, "microbatches": 8},
    "two": {"devices": 4, "stages": 8, "microbatches": 10, "forward": 3, "backward": 5, "p2p": 1},
    "two, uneven": {
        "devices": 3,
        "stages": 6,
        "microbatches": 7,
        "forward": [4, 5, 3, 4, 6, 5],
        "backward_input": [5, 5, 4, 3, 7, 6],
        "backward_weight": [3, 2, 4, 3, 2, 5],
        "p2p": [1, 2, 0, 2, 1],
    },
    "three": {"devices": 4, "stages": 12, "microbatches": 9, "forward": 2, "backward": 4, "p2p": 1},
    "four": {
        "devices": 2,
        "stages": 8,
        "microbatches": 6,
        "forward": [3, 2, 4, 3, 2, 3, 5, 4],
        "backward_input": 4,
        "backward_weight": 2,
    },
    "pairs": {"devices": 4, "stages": 8, "microbatches": 12, "forward": 3, "backward": 5, "overlap": 6, "p2p": 2},
}

# Costs and memory where activations do not all fit, and may be recomputed or offloaded.
SAVING: dict[str, dict[str, Any]] = {
    "offload": {
        "devices": 4,
        "microbatches": 8,
        "placement": "linear",
        "forward": 2,
        "backward": 4,
        "offload": 2,
        "activation": 1,
        "budget": 2,
    },
    "shared lanes": {
        "devices": 4,
        "microbatches": 8,
        "placement": "linear",
        "forward": 2,
        "backward": 4,
        "offload": 3,
        "reload": 2,
        "lanes": "pair",
        "activation": 1,
        "budget": 3,
    },
    "uneven offload": {
        "devices": 3,
        "microbatches": 8,
        "placement": "linear",
        "forward": [3, 4, 5],
        "backward": [6, 7, 9],
        "offload": [4, 2, 3],
        "reload": [5, 3, 2],
        "recompute": [2, 4, 4],
        "checkpoint": [0.5, 0.25, 0.25],
        "p2p": 1,
        "activation": [3, 2, 2],
        "budget": [6, 5, 4],
    },
    "recompute": {
        "devices": 4,
        "microbatches": 9,
        "placement": "linear",
        "forward": [5, 3, 4, 6],
        "backward": [9, 5, 7, 11],
        "p2p": 1,
        "checkpoint": 0.25,
        "activation": [2, 2, 1, 2],
        "budget": [5, 4, 3, 4],
    },
    "halves": {
        "devices": 4,
        "microbatches": 7,
        "placement": "linear",
        "forward": 3,
        "backward_input": 4,
        "backward_weight": 2,
        "offload": 3,
        "retain": 0.5,
        "checkpoint": 0.25,
        "activation": 2,
        "budget": 5,
    },
    "loop of halves": {
        "devices": 3,
        "stages": 6,
        "microbatches": 6,
        "placement": "loop",
        "forward": [2, 3, 2, 3, 4, 2],
        "backward_input": [3, 3, 2, 4, 4, 3],
        "backward_weight": [2, 1, 2, 2, 3, 1],
        "offload": 4,
        "checkpoint": 0.5,
        "p2p": 1,
        "activation": [2, 1, 1, 1, 2, 1],
        "budget": [6, 4, 4],
    },
    "v of halves": {
        "devices": 3,
        "stages": 6,
        "microbatches": 7,
        "placement": "v",
        "forward": 3,
        "backward_input": 3,
        "backward_weight": 3,
        "offload": 2,
        "recompute": 2,
        "retain": 0.5,
        "checkpoint": 0.25,
        "activation": 1,
        "budget": 3,
    },
}

# A budget so tight that its area, or its residences one after another, bound the makespan.
TIGHT: dict[str, dict[str, Any]] = {
    "tight v": {
        "devices": 3,
        "stages": 6,
        "microbatches": 9,
        "placement": "v",
        "forward": 6,
        "backward": 3,
        "activation": 1,
        "budget": 2,
    },
    "tight loop": {
        "devices": 2,
        "stages": 4,
        "microbatches": 4,
        "placement": "loop",
        "forward": 9,
        "backward_input": 3,
        "backward_weight": 6,
        "activation": 1,
        "budget": 2,
    },
    "tight recompute": {
        "devices": 4,
        "microbatches": 6,
        "placement": "linear",
        "forward": 5,
        "backward": 5,
        "p2p": 1,
        "checkpoint": 0.1,
        "activation": 1,
        "budget": 1,
    },
    "tight halves": {
        "devices": 3,
        "microbatches": 4,
        "placement": "linear",
        "forward": 12,
        "backward_input": 9,
        "backward_weight": 6,
        "retain": 0.5,
        "checkpoint": 0.5,
        "activation": 1,
        "budget": 1.3,
    },
    "tight offload": {
        "devices": 4,
        "microbatches": 9,
        "placement": "linear",
        "forward": 9,
        "backward": 3,
        "offload": 6,
        "p2p": 3,
        "checkpoint": 0.1,
        "activation": 1,
        "budget": 1.3,
    },
    "two in a row": {
        "devices": 3,
        "stages": 6,
        "microbatches": 7,
        "placement": "linear",
        "forward": 8,
        "backward_input": 10,
        "backward_weight": 6,
        "checkpoint": 0.5,
        "activation": 1,
        "budget": 2.3,
    },
}

# So small that CP-SAT proves the optimum in a moment.
SMALL: dict[str, dict[str, Any]] = {
    "small linear": {**UNIT, "devices": 3, "microbatches": 5, "placement": "linear", "activation": 1, "budget": 2},
    "small loop": {
        "devices": 2,
        "stages": 4,
        "microbatches": 3,
        "placement": "loop",
        "forward": [2, 2, 1, 4],
        "backward_input": [4, 2, 1, 4],
        "backward_weight": 3,
        "activation": [2, 3, 2, 2],
        "retain": [0.5, 1, 0.5, 0.25],
        "budget": 6.5,
    },
    "small v": {
        "devices": 2,
        "stages": 4,
        "microbatches": 3,
        "placement": "v",
        "forward": [4, 4, 2, 4],
        "backward_input": [2, 2, 1, 4],
        "backward_weight": 4,
        "activation": [2, 3, 2, 1],
        "retain": [0.5, 1, 0.25, 0.5],
        "budget": 6,
    },
    "uneven small v": {
        "devices": 2,
        "stages": 4,
        "microbatches": 2,
        "placement": "v",
        "forward": [4, 1, 1, 4],
        "backward_input": [1, 2, 3, 2],
        "backward_weight": 1,
        "p2p": 1,
        "activation": [1, 3, 2, 1],
        "retain": [0.25, 0.25, 0.25, 1],
        "budget": 5.5,
    },
    "both ways": {
        "devices": 2,
        "microbatches": 4,
        "placement": "bidirectional",
        "forward": [2, 3],
        "backward": [3, 5],
        "p2p": 1,
        "activation": 1,
        "budget": 2,
    },
}
SMALL_SAVING: dict[str, dict[str, Any]] = {
    "small offload": {
        "devices": 3,
        "microbatches": 4,
        "placement": "linear",
        "forward": 1,
        "backward": 2,
        "offload": 3,
        "activation": 1,
        "budget": 2,
    },
    "small recompute": {
        "devices": 3,
        "microbatches": 4,
        "placement": "linear",
        "forward": 2,
        "backward": 3,
        "checkpoint": 0.25,
        "activation": 1,
        "budget": 2,
    },
    "small halves": {
        "devices": 2,
        "microbatches": 3,
        "placement": "linear",
        "forward": [2, 3],
        "backward_input": 2,
        "backward_weight": 1,
        "checkpoint": 0.5,
        "activation": 1,
        "budget": 1.5,
    },
}

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
