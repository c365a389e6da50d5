"""Squeezed blocks of the V schedules are no longer than they were."""

from __future__ import annotations

from pipesched.pipeline.plan.lowering import lower
from pipesched.schedulers.block import squeeze
from tests.quality_cases import DRAWN_BLOCKS, on_v, v_trial, work_of
from tests.quality_problems import ON_V
from tests.quality_table import Table, golden_test


def reached(design: str, case: str) -> int | None:
    """Return the span, at the costs of the case, of a block in as much memory as it holds for unit costs."""
    drawn, tried = v_trial(design, case)
    orders = squeeze(lower(drawn.problem, tried.index), tried.index, drawn.block, tried.capacities)
    return None if orders is None else tried.timed(orders).span_ticks


SQUEEZED = Table(
    reached,
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
