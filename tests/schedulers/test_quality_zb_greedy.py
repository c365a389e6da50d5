"""The greedy scheduler of split backwards is no worse than it was, with any of its switches."""

from __future__ import annotations

from pipesched.schedulers.zero_bubble import Switches, greedy_orders
from tests.quality_cases import split, split_trial, work_of
from tests.quality_problems import SPLIT
from tests.quality_table import Table, golden_test

# Turns, the patience before the first I, later, and of a weight gradient; any number of forwards in flight, or few.
SWITCHES = {
    "F and I in turn, waits": (True, 2, 0, 2),
    "I first, never waits": (False, 0, 0, 0),
    "in turn, half patient": (True, 1, 1, 1),
    "I first, W half patient": (False, 2, 0, 1),
}


def reached(switches: str, case: str) -> int:
    """Return the makespan."""
    problem, tried = split(case), split_trial(case)
    name, _, flight = switches.partition("; ")
    most = [2 * (problem.devices - device) - 1 if flight else 99 for device in range(problem.devices)]
    schedule = tried.timed(greedy_orders(problem, tried.capacities, Switches(most, *SWITCHES[name])))
    assert tried.fits(schedule)
    return schedule.makespan_ticks


GREEDY = Table(
    reached,
    lambda case: work_of(split(case)),
    variants=[f"{name}{flight}" for name in SWITCHES for flight in ("", "; few in flight")],
    cases=tuple(SPLIT),
    golden={
        "F and I in turn, waits": (27, 47, 7587, 147, 169, 174, 195),
        "F and I in turn, waits; few in flight": (27, 47, 7587, 147, 169, 174, 195),
        "I first, never waits": (27, 49, 8373, 141, 169, 174, 195),
        "I first, never waits; few in flight": (27, 49, 7968, 141, 169, 174, 195),
        "in turn, half patient": (27, 47, 7802, 149, 169, 174, 195),
        "in turn, half patient; few in flight": (27, 47, 7802, 147, 169, 174, 195),
        "I first, W half patient": (27, 49, 7727, 149, 169, 174, 195),
        "I first, W half patient; few in flight": (27, 49, 7727, 149, 169, 174, 195),
    },
)

test_each_setting_of_the_greedy = golden_test(GREEDY)
