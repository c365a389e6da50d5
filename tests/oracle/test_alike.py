"""The second replay and the second search of all orders beside the first ones, where microbatches are alike."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from pipesched.pipeline.problem import Problem
from tests.oracle.optimum import head_work_tail, optimum
from tests.oracle.replay import replay
from tests.oracle.setup import Setup, read_setup
from tests.pipeline.optimum import optimum as optimum_alike
from tests.replay import replay as replay_alike
from tests.strategies import SETTLED, problems, random_saving_plan, with_capacities

CHANCES = st.sampled_from([0, 0.5, 1])


def setup_of(problem: Problem) -> Setup:
    """The setup of a problem whose microbatches are alike."""
    costs, memory, placement = problem.costs, problem.memory, problem.settled_placement
    columns = ("forward", "backward_input", "backward_weight", "recompute", "offload", "reload", "overlap", "p2p")
    config: dict[str, Any] = {key: value for key in columns if (value := getattr(costs, key)) is not None}
    config |= {key: getattr(memory, key) for key in ("activation", "retain", "checkpoint", "static", "budget")}
    return read_setup(
        {
            **config,
            "devices": problem.devices,
            "stages": problem.stages,
            "microbatches": problem.microbatches,
            "placement": placement.ways if placement.mirrored else placement.devices,
            "speed": problem.speed or 1,
            "links": problem.links,
        }
    )


@pytest.mark.slow
@given(
    problems(SETTLED, overlap=True, saving=True, unlike=True),
    st.randoms(use_true_random=False),
    CHANCES,
    CHANCES,
    CHANCES,
    CHANCES,
)
def test_both_replays_agree(
    problem: Problem, random: Random, split: float, pair: float, recompute: float, offload: float
) -> None:
    """Starts, ends, metrics and peaks of plans with pairs, halves, recompute, offloads and waits are the same."""
    texts = random_saving_plan(
        problem, random, split=split, pair=pair, recompute=recompute, offload=offload, wait=recompute / 4
    )
    alike = replay_alike(problem, *texts)
    replayed = replay(setup_of(problem), *texts)
    ticks, grains = problem.ticks.per_unit, problem.grains.per_unit
    assert replayed.start == {op: Fraction(time, ticks) for op, time in alike.start.items()}
    assert replayed.end == {op: Fraction(time, ticks) for op, time in alike.end.items()}
    assert replayed.makespan * ticks == alike.makespan
    assert replayed.span * ticks == alike.span
    assert [time * ticks for time in replayed.busy] == alike.busy
    assert [held * grains for held in replayed.peak] == alike.peak


@given(
    problems(SETTLED, most_devices=2, most_microbatches=3, most_chunks=2, least=1, unlike=True),
    st.sampled_from(["FB", "FIW"]),
    st.sampled_from([None, 1, 2, 3]),
)
def test_both_searches_agree(problem: Problem, kinds: str, activations: int | None) -> None:
    """The least makespan over every order is the same, also within a budget; no way in, work and way out is longer."""
    assume(problem.stages * problem.microbatches <= 6)
    if activations is not None:
        most = max(problem.grains.largest["activation"]) + max(problem.grains.largest["caught"])
        problem = with_capacities(problem, [activations * most] * problem.devices)
    setup, best = setup_of(problem), optimum_alike(problem, kinds)
    found = optimum(setup, kinds)
    assert best == (None if found is None else found * problem.ticks.per_unit)
    assert found is None or head_work_tail(setup, kinds) <= found
