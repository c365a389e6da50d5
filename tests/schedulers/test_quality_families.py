"""What families, their searches and their heuristics reach: none is longer than it was."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import pytest

from pipesched import NotApplicable, Plan, Schedule, algorithms, make_problem, run, schedule_plan
from pipesched.core.arrays import ceil_div
from pipesched.pipeline.bounds.bounds import lower_bound
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.plan.lowering import lower
from pipesched.schedulers.block import POLICIES, Dispatcher, Policy, squeeze
from pipesched.schedulers.family import prepare
from pipesched.schedulers.registry import family
from pipesched.schedulers.trials import Effort, shorten_path
from pipesched.schedulers.zero_bubble import EFFORT, Switches, greedy_orders, zb_auto
from tests.quality_table import (
    DRAWN_BLOCKS,
    FREE,
    ON_V,
    SPLIT,
    UNLIKE,
    Table,
    free,
    golden_test,
    on_v,
    split,
    split_trial,
    v_trial,
    work_of,
)

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


def orders_reached(name: str, case: str) -> int | None:
    """Return the makespan of the best order of a family; None where it exceeds the budget."""
    schedule = run(make_problem(**UNLIKE[case]), name, order="best").schedule
    return schedule.makespan_ticks if schedule.fits else None


def few_are_tried(name: str, case: str) -> int | None:
    """Return the same of a search that tries only a few orders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipesched.schedulers.ordering.MOST_ORDERS", 1_600)
        return orders_reached(name, case)


def least(case: str) -> int:
    """Return a time that no schedule of the case is below, whether its backwards are split or not."""
    return min(lower_bound(run(make_problem(**UNLIKE[case]), name).schedule).ticks for name in ("1f1b", "zb-h1"))


SEARCHED = Table(
    orders_reached,
    least,
    variants=("1f1b", "zb-h1"),
    cases=tuple(UNLIKE),
    golden={"1f1b": (280, 939, 19460, 146), "zb-h1": (243, 691, 14810, 115)},
)
HASTY = Table(
    few_are_tried,
    least,
    variants=("1f1b", "eager-1f1b", "zb-h1"),
    cases=tuple(UNLIKE),
    golden={"1f1b": (282, 940, 19680, 146), "eager-1f1b": (286, 916, 19030, None), "zb-h1": (243, 693, 14940, 115)},
)
PLANNED = Table(orders_reached, least, variants=("list",), cases=tuple(UNLIKE), golden={"list": (280, 914, 19080, 149)})
test_searched = golden_test(SEARCHED, nightly=True)
test_searched_in_haste = golden_test(HASTY, nightly=True)
test_planned_anew = golden_test(PLANNED, nightly=True)
NAMED = {
    f"patience {Fraction(one.patience, 4)}, ahead {one.ahead}{'' if one.weight_first else ', I before W'}": one
    for one in (*POLICIES, Policy(), Policy(weight_first=False))
}


def dispatch_reached(design: str, policy: str, case: str) -> int | None:
    """Return the span, at the costs of the case, of a block in as much memory as it holds for unit costs."""
    drawn, tried = v_trial(design, case)
    orders = Dispatcher(lower(drawn.problem, tried.index), tried.index, drawn.block).orders(
        tried.capacities, NAMED[policy]
    )
    return None if orders is None else tried.timed(orders).span_ticks


HALF = Table(
    partial(dispatch_reached, "v-half, unit"),
    lambda case: work_of(on_v(case)),
    variants=tuple(NAMED),
    cases=tuple(ON_V),
    golden={
        "patience 1/4, ahead 1000000": (59, 277, 231, 490, 237, 976),
        "patience 0, ahead 1": (60, 272, 229, 456, 234, 980),
        "patience 3/4, ahead 0": (61, 291, 237, 468, 252, 992),
        "patience 0, ahead 1000000": (59, 277, 231, 490, 237, 976),
        "patience 1/2, ahead 2": (59, 277, 231, 490, 237, 978),
        "patience 1/2, ahead 1000000": (59, 277, 231, 490, 237, 976),
        "patience 0, ahead 1000000, I before W": (61, 287, 231, 532, 223, 976),
        "patience 0, ahead 2": (59, 277, 231, 490, 237, 978),
        "patience 1/4, ahead 0": (61, 291, 237, 468, 252, 992),
        "patience 0, ahead 0": (61, 291, 237, 468, 252, 992),
        "patience 0, ahead 0, I before W": (61, 295, 237, 484, 237, 992),
    },
)
LEAST = Table(
    partial(dispatch_reached, "v-min, own"),
    lambda case: work_of(on_v(case)),
    variants=tuple(NAMED),
    cases=tuple(ON_V),
    golden={
        "patience 1/4, ahead 1000000": (65, 311, 247, 532, 233, 1030),
        "patience 0, ahead 1": (66, 322, 244, 562, 238, 1016),
        "patience 3/4, ahead 0": (65, 321, 252, 538, 236, 1104),
        "patience 0, ahead 1000000": (65, 311, 247, 532, 233, 1022),
        "patience 1/2, ahead 2": (65, 315, 241, 532, 233, 1016),
        "patience 1/2, ahead 1000000": (65, 315, 241, 532, 233, 1016),
        "patience 0, ahead 1000000, I before W": (67, 317, 243, 532, 233, 1030),
        "patience 0, ahead 2": (65, 311, 247, 532, 233, 1033),
        "patience 1/4, ahead 0": (65, 317, 252, 538, 238, 1069),
        "patience 0, ahead 0": (65, 317, 252, 538, 238, 1124),
        "patience 0, ahead 0, I before W": (65, 335, 252, 538, 238, 1094),
    },
)
test_each_policy_on_the_block_of_v_half = golden_test(HALF)
test_each_policy_on_the_block_of_v_min = golden_test(LEAST)


def squeeze_reached(design: str, case: str) -> int | None:
    """Return the span, at the costs of the case, of a block in as much memory as it holds for unit costs."""
    drawn, tried = v_trial(design, case)
    orders = squeeze(lower(drawn.problem, tried.index), tried.index, drawn.block, tried.capacities)
    return None if orders is None else tried.timed(orders).span_ticks


SQUEEZED = Table(
    squeeze_reached,
    lambda case: work_of(on_v(case)),
    variants=tuple(DRAWN_BLOCKS),
    cases=tuple(ON_V),
    golden={
        "v-half, unit": (63, 265, 233, 438, 252, 1000),
        "v-half, own": (63, None, 244, None, 234, 990),
        "v-min, unit": (65, 329, 245, 558, 301, 1068),
        "v-min, stretched": (65, 333, 251, 544, 277, 1046),
        "v-min, own": (65, None, 264, None, 245, 1103),
        "zb-v, between": (59, None, 233, None, 211, 916),
    },
)
test_squeezed_blocks = golden_test(SQUEEZED)
FAMILIES = ("1f1b-v", "zb-v", "v-half", "v-min")


def best_block_reached(variant: str, case: str) -> int:
    """Return the value of a family by an objective."""
    name, _, objective = variant.partition(", ")
    problem = prepare(on_v(case), family(name))
    schedule = schedule_plan(problem, family(name).plan(problem, objective=objective))
    return schedule.span_ticks if objective == "span" else schedule.makespan_ticks


BEST = Table(
    best_block_reached,
    lambda case: work_of(on_v(case)),
    variants=[f"{name}, {objective}" for name in FAMILIES for objective in ("span", "makespan")],
    cases=tuple(ON_V),
    golden={
        "1f1b-v, span": (69, 286, 268, 508, 220, 977),
        "1f1b-v, makespan": (69, 286, 268, 508, 220, 977),
        "zb-v, span": (54, 231, 227, 382, 204, 912),
        "zb-v, makespan": (57, 231, 232, 382, 204, 912),
        "v-half, span": (59, 257, 234, 414, 233, 964),
        "v-half, makespan": (59, 257, 238, 414, 233, 964),
        "v-min, span": (65, 305, 235, 514, 233, 970),
        "v-min, makespan": (65, 305, 240, 514, 233, 970),
    },
)
test_each_v_schedule_by_each_objective = golden_test(BEST, nightly=True)
ROUNDS, SLACK = 150, 50


def start_of(name: str, case: str) -> Schedule:
    """Return the schedule from which the search starts."""
    problem, tried = split(case), split_trial(case)
    if name == "greedy":
        switches = Switches([99] * problem.devices, False, 0, 0, 0)
        return tried.timed(greedy_orders(problem, tried.capacities, switches))
    rows = [[tried.index.row(kind, device) for kind in "FIW"] for device in range(problem.devices)]
    return tried.timed([[row[j] for j in range(problem.microbatches) for row in three] for three in rows])


def critical_blocks_reached(objective: str, start: str, case: str) -> int:
    """Return the value after so many rounds."""
    problem, tried, schedule = split(case), split_trial(case), start_of(start, case)
    offsets = schedule.first_start_ticks if objective == "span" else [0] * problem.devices
    orders = schedule.plan.orders
    shorter = shorten_path(tried.graph, tried.index, tried.capacities, offsets, orders, ROUNDS, SLACK)
    better = checked(schedule_plan(problem, Plan(tried.index, shorter)))
    assert better.fits
    return better.span_ticks if objective == "span" else better.makespan_ticks


MAKESPANS = Table(
    lambda start, case: critical_blocks_reached("makespan", start, case),
    lambda case: work_of(split(case)),
    variants=("greedy", "one by one"),
    cases=tuple(SPLIT),
    golden={"greedy": (27, 46, 8025, 141, 169, 174, 195), "one by one": (27, 46, 16059, 145, 198, 236, 228)},
)
SPANS = Table(
    lambda start, case: critical_blocks_reached("span", start, case),
    lambda case: work_of(split(case)),
    variants=("greedy", "one by one"),
    cases=tuple(SPLIT),
    golden={"greedy": (26, 46, 8025, 139, 154, 174, 187), "one by one": (27, 46, 16059, 144, 198, 236, 230)},
)
test_the_local_search_shortens_the_makespan = golden_test(MAKESPANS)
test_the_local_search_shortens_the_span = golden_test(SPANS)
NO_EFFORT = Effort(operations=0, rounds=0, slack=EFFORT.slack)


def zb_auto_reached(objective: str, case: str) -> int:
    """Return the value of the plan."""
    schedule = schedule_plan(split(case), zb_auto(split(case), objective=objective))
    assert schedule.fits
    return schedule.span_ticks if objective == "span" else schedule.makespan_ticks


def of_greedy_alone(objective: str, case: str) -> int:
    """Return the value of the best of the schedules from which the local search begins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipesched.schedulers.zero_bubble.EFFORT", NO_EFFORT)
        return zb_auto_reached(objective, case)


BEST_OF_ZB_AUTO = Table(
    zb_auto_reached,
    lambda case: work_of(split(case)),
    variants=("span", "makespan"),
    cases=tuple(SPLIT),
    golden={"span": (26, 46, 7587, 139, 154, 174, 185), "makespan": (27, 46, 7587, 141, 169, 174, 195)},
)
STARTS = Table(
    of_greedy_alone,
    lambda case: work_of(split(case)),
    variants=("span", "makespan"),
    cases=tuple(SPLIT),
    golden={"span": (26, 47, 7587, 139, 154, 174, 185), "makespan": (27, 47, 7587, 141, 169, 174, 195)},
)
test_zb_auto_by_each_objective = golden_test(BEST_OF_ZB_AUTO)
test_zb_auto_before_its_local_search = golden_test(STARTS)
# Turns, the patience before the first I, later, and of a weight gradient; any number of forwards in flight, or few.
SWITCHES = {
    "F and I in turn, waits": (True, 2, 0, 2),
    "I first, never waits": (False, 0, 0, 0),
    "in turn, half patient": (True, 1, 1, 1),
    "I first, W half patient": (False, 2, 0, 1),
}


def zb_greedy_reached(switches: str, case: str) -> int:
    """Return the makespan."""
    problem, tried = split(case), split_trial(case)
    name, _, flight = switches.partition("; ")
    most = [2 * (problem.devices - device) - 1 if flight else 99 for device in range(problem.devices)]
    schedule = tried.timed(greedy_orders(problem, tried.capacities, Switches(most, *SWITCHES[name])))
    assert tried.fits(schedule)
    return schedule.makespan_ticks


GREEDY = Table(
    zb_greedy_reached,
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
