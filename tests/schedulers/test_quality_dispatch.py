"""Dispatched blocks of the V schedules are no longer than they were, under each policy."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from pipesched.pipeline.plan.lowering import lower
from pipesched.schedulers.block import POLICIES, Dispatcher, Policy
from tests.quality_cases import on_v, v_trial, work_of
from tests.quality_problems import ON_V
from tests.quality_table import Table, golden_test

NAMED = {
    f"patience {Fraction(one.patience, 4)}, ahead {one.ahead}{'' if one.weight_first else ', I before W'}": one
    for one in (*POLICIES, Policy(), Policy(weight_first=False))
}


def reached(design: str, policy: str, case: str) -> int | None:
    """Return the span, at the costs of the case, of a block in as much memory as it holds for unit costs."""
    drawn, tried = v_trial(design, case)
    orders = Dispatcher(lower(drawn.problem, tried.index), tried.index, drawn.block).orders(
        tried.capacities, NAMED[policy]
    )
    return None if orders is None else tried.timed(orders).span_ticks


HALF = Table(
    partial(reached, "v-half, unit"),
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
    partial(reached, "v-min, own"),
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
