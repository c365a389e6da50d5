"""The second replays and the searches of all orders themselves: what is known of them by rules alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from tests.examples import part
from tests.oracle import orders
from tests.oracle.drawn import Config, small_configs, step_configs
from tests.oracle.optimum import head_work_tail, optimum
from tests.oracle.replay import Stuck, replay
from tests.oracle.setup import read_setup
from tests.oracle.step_optimum import every_plan, optimum as optimum_of_step
from tests.oracle.step_replay import Illegal, Texts, graph_of, replay_step, times_of
from tests.oracle.step_setup import read_step


def test_rule_of_verl() -> None:
    """The largest in the middle; of equal ones the later first."""
    assert orders.verl([1, 2, 3, 4, 5, 6]) == [1, 3, 5, 4, 2, 0]
    assert orders.verl([2, 2, 2]) == [0, 2, 1]


def test_stuck_groups() -> None:
    """Groups of one microbatch on four devices wait for each other for ever, and the replay says where."""
    config = {"devices": 4, "stages": 8, "microbatches": 8, "placement": "loop"}
    with pytest.raises(Stuck) as error:
        replay(read_setup(config), orders.interleaved(4, 2, 8, group=1))
    assert error.value.at


@pytest.mark.parametrize(
    ("config", "kinds", "best"),
    [
        ({"devices": 2, "microbatches": 3}, "FB", 12),  # (M + P - 1)(f + B)
        ({"devices": 3, "microbatches": 2}, "FB", 12),
        ({"devices": 2, "microbatches": 3, "budget": 1}, "FB", 18),  # one microbatch at a time
        ({"devices": 2, "microbatches": 1, "slices": 3}, "FB", 4),  # (M + (P-1)/n)(f + B)
        ({"devices": 3, "microbatches": 2, "slices": 2}, "FB", 9),
        ({"devices": 2, "mode": "forward", "forward": [[1, 2, 3]] * 2}, "F", 9),
        ({"devices": 2, "mode": "forward", "forward": [[3, 1, 2], [1, 3, 2]]}, "F", 7),  # Johnson's rule
        ({"devices": 2, "microbatches": 2, "backward_input": 1, "backward_weight": 1}, "FIW", 7),
    ],
)
def test_every_order(config: dict[str, Any], kinds: str, best: int) -> None:
    """Trying every order finds known optima, and no bound by ways in, work and ways out is above them."""
    setup = read_setup(config)
    assert optimum(setup, kinds) == best
    assert head_work_tail(setup, kinds) <= best


@given(
    st.tuples(st.booleans(), st.booleans()).flatmap(lambda kinds: small_configs(slices=kinds[0], forward_only=kinds[1]))
)
def test_no_way_is_longer(config: Config) -> None:
    """No way in, work and way out is longer than the best of all orders, which exists wherever a microbatch fits."""
    setup = read_setup(config)
    for kinds in ["F"] if setup.forward_only else ["FB", "FIW"]:
        best = optimum(setup, kinds)
        assert best is not None
        assert head_work_tail(setup, kinds) <= best


# The second replay and the search of all orders of whole steps: figures from rules alone.


@pytest.mark.parametrize(
    ("program", "wrong"),
    [
        ([("0UNSHARD0", None), ("0RESHARD0", "0F0"), ("0REDUCE_GRAD", "0B0")], "0B0 while its stage is sharded"),
        ([("0UNSHARD0", "0F0"), ("0REDUCE_GRAD", "0B0"), ("0RESHARD0", "0B0")], "0F0 while its stage is sharded"),
        ([("0UNSHARD0", None), ("0REDUCE_GRAD", "0F0"), ("0RESHARD0", "0B0")], "0REDUCE_GRAD before"),
        ([("0UNSHARD0", None), ("0RESHARD0", "0B0"), ("0REDUCE_GRAD", "0F0")], "0REDUCE_GRAD goes back"),
        ([("0UNSHARD1", None), ("0RESHARD1", "0B0"), ("0REDUCE_GRAD", "0B0")], "0UNSHARD1 out of turn"),
        ([("0UNSHARD0", None), ("0REDUCE_GRAD", "0B0")], "stage 0 stays whole"),
        ([("0UNSHARD0", None), ("0RESHARD0", "0B0")], "0REDUCE_GRAD is missing"),
    ],
)
def test_illegal_programs(program: list[tuple[str, str | None]], wrong: str) -> None:
    """The replay says which rule a program breaks."""
    step = read_step({"devices": 1, "microbatches": 1, "shard": "weights"})
    with pytest.raises(Illegal, match=wrong):
        replay_step(step, Texts([["0F0", "0B0"]], [program]))


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
    assert optimum_of_step(step, "FB") == best
