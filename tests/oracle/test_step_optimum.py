"""The search of all orders of a whole step: known optima, and every plan replayed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from tests.examples import part
from tests.oracle import orders
from tests.oracle.drawn import Config
from tests.oracle.drawn_step import step_configs
from tests.oracle.replay import Stuck
from tests.oracle.step_graph import graph_of
from tests.oracle.step_optimum import every_plan, optimum
from tests.oracle.step_replay import replay_step, times_of
from tests.oracle.step_rule import by_rule
from tests.oracle.step_setup import Step, read_step

TWO = {"devices": 2, "microbatches": 3, "forward": 5, "backward": 10}
SIDE = {"forward": 2, "backward": 4}


@pytest.mark.parametrize(
    ("config", "best"),
    [
        (TWO | {"side": [SIDE]}, 66), (TWO | {"side": [{"forward": 2}]}, 62),  # rule `first`: 72, 64
        (TWO | {"gather": 3, "reduce": 4, "optimizer": 2}, 69),  # (M + P - 1)(f + B), and all three
        (TWO | {"gather": 3, "reduce": 4, "optimizer": 2, "tied": 5}, 74),
        ({"devices": 1, "microbatches": 2, "reduce": 3, "optimizer": 1}, 10),
        ({"devices": 1, "stages": 2, "microbatches": 1, "reduce": 3, "optimizer": 1}, 11),  # 2 of 3 hidden
        ({"devices": 1, "stages": 2, "microbatches": 1, "gather": 2, "shard": "weights"}, 9),
    ],
)  # fmt: skip
def test_known_optima(config: dict[str, Any], best: int) -> None:
    """Side work in bubbles; what a step must show; what it can hide."""
    assert optimum(read_step(config), "FB") == best


@part(8)
@given(step_configs(most_devices=2, most_microbatches=2, levels=("none", "optimizer", "gradients")))
def test_search_beside_every_plan(config: Config) -> None:
    """Where plans are few, none is shorter than what the search finds, and one is as short."""
    step = read_step(config)
    ends = step.setup.stages * (len(step.setup.units) * 2 + (step.optimizer is not None) + 2)
    assume(ends + 2 * len(step.side) * step.setup.microbatches <= 13)
    best = None
    for at, plan in every_plan(step, "FB"):
        try:
            makespan = max(times_of(graph_of(at, plan))[1])
        except Stuck:
            continue
        best = makespan if best is None else min(best, makespan)
    assert optimum(step, "FB") == best


@part(8)
@given(step_configs(("linear",), most_devices=2, most_microbatches=2, has_side=False, least=1), st.booleans())
def test_no_family_is_shorter(config: Config, has_budget: bool) -> None:
    """1F1B is never shorter than the best of all orders; with a budget that it just keeps neither."""
    step = read_step(config)
    assume(step.setup.stages == step.setup.devices)
    whole = replay_step(step, by_rule(step, orders.one_f_one_b(step.setup.devices, step.setup.microbatches)))
    best = optimum(_with_budget(step, whole.peak) if has_budget else step, "FB")
    assert best is not None
    assert best <= whole.makespan


def _with_budget(step: Step, peaks: list[Fraction]) -> Step:
    budget = [peak + static for peak, static in zip(peaks, step.statics(), strict=True)]
    return replace(step, setup=replace(step.setup, budget=budget))
