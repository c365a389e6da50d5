"""Hardware: list schedules, their registers, intervals of loops and their bounds are no worse than they were."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pipesched.config.hls import load_hls
from pipesched.core.listsched import PRIORITIES
from pipesched.core.optimum import lower_bound
from pipesched.hls.graph import DataflowGraph, parse_program
from pipesched.hls.modulo import interval_bounds, pipeline
from pipesched.hls.outcome import HardwareOutcome, list_outcome
from pipesched.hls.schedule import HardwareSchedule, Units, assign_classes, bound_to_units, lower, make_units
from tests.quality_table import Table, golden_test

FOLDER = Path(__file__).parents[2] / "configs" / "hls"
LEAST = 1e-9  # seconds: a list schedule that is repeated

# Programs with adders, multipliers, the latency of these, and whether they are pipelined.
STRAIGHT = {
    "wave filter": ("ewf", 2, 2, 2, False),
    "pipelined wave filter": ("ewf", 2, 1, 3, True),
    "auto-regression": ("arf", 2, 3, 3, False),
    "cosine": ("dct8", 3, 2, 2, False),
    "symmetric filter": ("fir16-symmetric", 2, 1, 2, True),
    "direct filter": ("fir17-direct", 1, 2, 2, False),
}
CROWDED = "a = x * x\nb = a + y\nc = b * a\nd = a * y\ne = b * b"
LOOPS = {
    "crowded": (CROWDED, 1, 2, 3, False),
    "HAL": ("hal-loop", 2, 2, 1, False),
    "slow HAL": ("hal-loop", 3, 3, 2, False),
    "filter": ("fir-loop", 3, 3, 1, False),
    "pipelined filter": ("fir-loop", 2, 2, 2, True),
    "wave filter": ("ewf-loop", 3, 2, 2, False),
    "tight wave filter": ("ewf-loop", 2, 2, 2, False),
    "pipelined wave filter": ("ewf-loop", 2, 1, 2, True),
}


@cache
def hardware(case: str, *, loop: bool) -> tuple[DataflowGraph, Units]:
    """Return the graph of a case, and its units."""
    name, add, mul, latency, pipelined = (LOOPS if loop else STRAIGHT)[case]
    units = make_units({"add": add, "mul": mul}, {"mul": latency}, ["mul"] if pipelined else [])
    if name == CROWDED:
        return parse_program(CROWDED, loop=loop), units
    return load_hls(str(FOLDER / f"{name}.txt"), loop=loop).graph, units


@cache
def looped(case: str, seconds: float) -> HardwareOutcome:
    """Return the loop of a case; with the least time, a list schedule that is repeated."""
    return pipeline(*hardware(case, loop=True), time_limit=seconds, workers=1)


@cache
def listed(priority: str, case: str) -> HardwareSchedule:
    """Return the list schedule of a case by a priority and the usual tie."""
    return list_outcome(*hardware(case, loop=False), priority=priority).schedule


def latency_bound(case: str, *, loop: bool = False) -> int:
    """Return a lower bound on the latency."""
    graph, units = hardware(case, loop=loop)
    return lower_bound(lower(graph, units, assign_classes(graph, units)))[0]


def fixed_units(case: str) -> int:
    """Return the number of operations that have the same unit in every iteration of a repeated list schedule."""
    graph, units = hardware(case, loop=True)
    loop = looped(case, LEAST).schedule
    assert loop.interval is not None
    return len(bound_to_units(graph, units, loop.classes, loop.starts, loop.interval).instances)


def bound_on_interval(bound: str, case: str) -> int:
    """Return a bound on the interval: by the units, by the recurrences, or by the search too."""
    by_units, by_recurrences = interval_bounds(*hardware(case, loop=True))
    return {"units": by_units, "recurrences": by_recurrences, "search": looped(case, 60).bound}[bound]


LATENCIES = Table(
    lambda priority, case: listed(priority, case).latency,
    latency_bound,
    variants=tuple(PRIORITIES),
    cases=tuple(STRAIGHT),
    golden={
        "none": (20, 24, 21, 18, 11, 19),
        "asap": (20, 24, 21, 21, 11, 19),
        "alap": (19, 22, 21, 18, 11, 19),
        "mobility": (19, 22, 21, 18, 11, 19),
        "successors": (19, 24, 21, 18, 11, 19),
        "descendants": (19, 22, 21, 18, 11, 19),
    },
)
REGISTERS = Table(
    lambda priority, case: listed(priority, case).registers,
    lambda _: 1,
    variants=tuple(PRIORITIES),
    cases=tuple(STRAIGHT),
    golden={
        "none": (6, 6, 5, 15, 7, 3),
        "asap": (6, 6, 5, 16, 7, 3),
        "alap": (7, 6, 7, 15, 7, 3),
        "mobility": (8, 6, 7, 14, 7, 3),
        "successors": (6, 6, 5, 13, 7, 3),
        "descendants": (7, 6, 7, 14, 7, 3),
    },
)
INTERVALS = Table(
    lambda way, case: looped(case, 60 if way == "search" else LEAST).objective,
    lambda case: max(interval_bounds(*hardware(case, loop=True))),
    variants=("search", "repeated list schedule"),
    cases=tuple(LOOPS),
    golden={"search": (6, 4, 6, 3, 5, 16, 17, 17), "repeated list schedule": (7, 4, 6, 3, 5, 18, 19, 19)},
)
LOOP_LATENCIES = Table(
    lambda _, case: looped(case, 60).schedule.latency,
    lambda case: latency_bound(case, loop=True),
    variants=("search",),
    cases=tuple(LOOPS),
    golden={"search": (10, 4, 6, 4, 6, 18, 19, 19)},
)
INTERVAL_BOUNDS = Table(
    bound_on_interval,
    lambda case: looped(case, LEAST).objective,
    variants=("units", "recurrences", "search"),
    cases=tuple(LOOPS),
    golden={
        "units": (6, 3, 4, 3, 5, 9, 13, 13),
        "recurrences": (1, 4, 6, 1, 1, 16, 16, 16),
        "search": (6, 4, 6, 3, 5, 16, 17, 17),
    },
    rising=True,
)
FIXED_UNITS = Table(
    lambda _, case: fixed_units(case),
    lambda case: len(hardware(case, loop=True)[0]),
    variants=("first fit",),
    cases=tuple(LOOPS),
    golden={"first fit": (5, 11, 11, 17, 17, 34, 34, 34)},
    rising=True,
)


test_latency_of_list_schedules = golden_test(LATENCIES)
test_registers_of_list_schedules = golden_test(REGISTERS)
test_intervals_of_loops = golden_test(INTERVALS)
test_latency_of_loops = golden_test(LOOP_LATENCIES)
test_bounds_on_intervals = golden_test(INTERVAL_BOUNDS)
test_operations_keep_their_units = golden_test(FIXED_UNITS)
