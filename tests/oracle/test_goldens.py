"""The second replays and the searches of all orders themselves: what is known of them by rules alone."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from tests.examples import part
from tests.oracle import orders
from tests.oracle.drawn import Config, small_configs, step_configs
from tests.oracle.optimum import head_work_tail, optimum
from tests.oracle.replay import Stuck, replay
from tests.oracle.setup import fused, read_setup
from tests.oracle.step_optimum import every_plan, optimum as optimum_of_step
from tests.oracle.step_replay import Illegal, Rows, Texts, Whole, best_ahead, by_rule, graph_of, replay_step, times_of
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


def test_fused_stages_add_up() -> None:
    """Eight stages as four: as if each had the sum of two, entry by entry, and the boundaries between them alone."""
    rows = [[1, 2], [3, 0], [1, 1], [2, 5], [0, 1], [4, 4], [1, 2], [2, 1]]
    sums = [[4, 2], [3, 6], [4, 5], [3, 3]]
    config = {"devices": 4, "stages": 8, "forward": rows, "activation": rows, "p2p": [9, 1, 9, 2, 9, 3, 9]}
    whole = {"devices": 4, "forward": sums, "activation": sums, "p2p": [1, 2, 3]}
    assert fused(read_setup(config), 4, range(4)) == read_setup(whole)


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

TWO = {
    "devices": 2, "stages": 8, "microbatches": 4, "placement": "loop", "forward": 5, "backward": 10, "activation": 1,
    "weights": 2, "gradients": 4, "states": 12,
}  # fmt: skip


INTERLEAVED, BREADTH_FIRST = orders.interleaved(2, 4, 4), orders.looped_bfs(2, 4, 4)


SIDE = {"forward": 2, "backward": 4}


def replayed(config: dict[str, Any], rows: Rows) -> Whole:
    """A family's rows, with all that the rule adds."""
    step = read_step(config)
    return replay_step(step, by_rule(step, rows))


@pytest.mark.parametrize(
    ("rows", "ahead", "makespan", "weights", "gradients"),
    [
        (INTERLEAVED, 1, 348, 2, 16), (INTERLEAVED, 2, 263, 4, 16), (INTERLEAVED, 3, 263, 6, 16),
        (INTERLEAVED, "full", 263, 8, 16), (BREADTH_FIRST, 1, 299, 2, 4), (BREADTH_FIRST, 2, 263, 4, 8),
        (BREADTH_FIRST, 3, 263, 6, 8), (BREADTH_FIRST, "full", 263, 8, 8),
    ],
)  # fmt: skip
def test_stages_ahead(rows: Rows, ahead: Any, makespan: int, weights: int, gradients: int) -> None:
    """How many stages are whole at once: makespan, peak weights and peak gradients of both devices."""
    whole = replayed(TWO | {"gather": 4, "reduce": 4, "shard": {"level": "weights", "ahead": ahead}}, rows)
    assert whole.makespan == makespan
    assert whole.peaks.weights == [weights] * 2
    assert whole.peaks.gradients == [gradients] * 2


def test_automatic_ahead() -> None:
    """Two stages ahead are the shortest, one fits a small budget; where none fits, one has the least memory."""
    step = read_step(TWO | {"gather": 4, "reduce": 4, "shard": {"level": "weights", "ahead": "auto"}})
    assert best_ahead(step, INTERLEAVED)[0] == 2
    assert best_ahead(step, INTERLEAVED, [Fraction(100)] * 2)[0] == 1
    assert best_ahead(step, INTERLEAVED, [Fraction(1)] * 2)[0] == 1


def test_program_of_a_device() -> None:
    """Interleaved, three stages ahead: what the first device issues behind each slot."""
    step = read_step(TWO | {"gather": 4, "reduce": 4, "shard": "weights"})
    issued: dict[str | None, list[str]] = {}
    for text, after in by_rule(step, INTERLEAVED).programs[0]:
        issued.setdefault(after, []).append(text)
    assert {after: " ".join(texts) for after, texts in issued.items()} == {
        None: "0UNSHARD0 2UNSHARD0 4UNSHARD0", "0F1": "0RESHARD0 6UNSHARD0", "2F1": "2RESHARD0 0UNSHARD1",
        "4F1": "4RESHARD0 2UNSHARD1", "0F3": "0RESHARD1 4UNSHARD1", "4F3": "4RESHARD1 0UNSHARD2",
        "2B1": "2RESHARD1 4UNSHARD2", "0B1": "0RESHARD2 2UNSHARD2", "6B3": "6REDUCE_GRAD 6RESHARD0 0UNSHARD3",
        "4B3": "4REDUCE_GRAD 4RESHARD2", "2B3": "2REDUCE_GRAD 2RESHARD2", "0B3": "0REDUCE_GRAD 0RESHARD3",
    }  # fmt: skip


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


THREE = {"devices": 2, "microbatches": 3, "forward": 5, "backward": 10}


@pytest.mark.parametrize(
    ("config", "best"),
    [
        (THREE | {"side": [SIDE]}, 66), (THREE | {"side": [{"forward": 2}]}, 62),  # rule `first`: 72, 64
        (THREE | {"gather": 3, "reduce": 4, "optimizer": 2}, 69),  # (M + P - 1)(f + B), and all three
        (THREE | {"gather": 3, "reduce": 4, "optimizer": 2, "tied": 5}, 74),
        ({"devices": 1, "microbatches": 2, "reduce": 3, "optimizer": 1}, 10),
        ({"devices": 1, "stages": 2, "microbatches": 1, "reduce": 3, "optimizer": 1}, 11),  # 2 of 3 hidden
        ({"devices": 1, "stages": 2, "microbatches": 1, "gather": 2, "shard": "weights"}, 9),
    ],
)  # fmt: skip
def test_known_optima(config: dict[str, Any], best: int) -> None:
    """Side work in bubbles; what a step must show; what it can hide."""
    assert optimum_of_step(read_step(config), "FB") == best


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
