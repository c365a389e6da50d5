"""Every family without options is no longer than it was."""

from __future__ import annotations

from pipesched.core.arrays import ceil_div
from pipesched.errors import NotApplicable
from pipesched.pipeline.bounds.bounds import lower_bound
from pipesched.results.outcome import run
from pipesched.schedulers.registry import algorithms
from tests.quality_cases import free
from tests.quality_problems import FREE
from tests.quality_table import Table, golden_test

NAMES = [algorithm.name for algorithm in algorithms() if not algorithm.required]


def reached(name: str, case: str) -> int | None:
    """Return the makespan of a family; None where it does not apply."""
    try:
        schedule = run(free(case), name).schedule
    except NotApplicable:
        return None
    assert schedule.makespan_ticks >= lower_bound(schedule).ticks
    return schedule.makespan_ticks


def shared_work(case: str) -> int:
    """Return what the devices have to do, shared out evenly; an overlapped pair takes the cost of an overlap."""
    problem = free(case)
    ticks = problem.ticks
    stages = map(sum, zip(ticks.mean["forward"], ticks.mean["backward"], strict=True))
    return ceil_div(problem.microbatches * sum(ticks.mean.get("overlap") or stages), problem.devices)


MADE = Table(
    reached,
    shared_work,
    variants=NAMES,
    cases=tuple(FREE),
    golden={
        "sequential": (96, 7000, 588, 702, 444, 9120),
        "naive": (33, 2140, 270, 222, 264, 2520),
        "1f1b": (33, 2260, 270, 234, 264, 2840),
        "seq-1f1b": (33, 2260, 270, 234, 264, 2840),
        "eager-1f1b": (33, 2140, 270, 222, 264, 2520),
        "1f1b-overlap": (33, 2220, 270, 228, 264, 2280),
        "interleaved": (33, 2280, 254, 198, 233, 2440),
        "interleaved-overlap": (33, 2030, 286, 212, 246, 2420),
        "looped-bfs": (33, 1900, 239, 186, 238, 2280),
        "grouped-interleaved": (33, 2300, 263, 266, 245, 3000),
        "gis-h": (33, 2560, 271, 318, 304, 3440),
        "zb-h1": (27, 1900, 242, 192, 248, 2340),
        "zb-h2": (27, 1810, 237, 183, 240, 2160),
        "zb-auto": (27, 1810, 237, 183, 240, 2160),
        "interleaved-zb": (27, 1890, 231, 216, 235, 2495),
        "1f1b-v": (None, 2370, 220, None, 242, 3110),
        "zb-v": (None, 1815, 204, None, 230, 2285),
        "v-half": (None, 1930, 233, None, 230, 2430),
        "v-min": (None, 2315, 233, None, 235, 3105),
        "dualpipe": (26, 1830, None, None, 222, 1960),
        "dualpipe-v": (None, 1980, 223, None, 238, 2255),
        "dualpipe-v-whole": (None, 2050, 229, None, 242, 2550),
        "chimera": (30, 2190, None, 249, 222, 2580),
        "bitpipe": (None, 2300, None, None, 222, 2760),
        "hanayo": (None, 2720, 263, None, 261, 3550),
        "list": (30, 2140, 256, 222, 256, 2520),
    },
)

test_each_family = golden_test(MADE, nightly=True)
