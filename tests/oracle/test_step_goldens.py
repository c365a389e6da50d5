"""The second replay and the search of all orders of whole steps: figures from rules alone."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given

from tests.examples import part
from tests.oracle import orders
from tests.oracle.drawn import Config
from tests.oracle.drawn_step import step_configs
from tests.oracle.replay import Stuck
from tests.oracle.step_graph import Texts, graph_of
from tests.oracle.step_legal import Illegal
from tests.oracle.step_optimum import every_plan, optimum
from tests.oracle.step_replay import Whole, replay_step, times_of
from tests.oracle.step_rule import Rows, best_ahead, by_rule
from tests.oracle.step_setup import read_step

FOUR = {"devices": 4, "microbatches": 8, "forward": 10, "backward": 20}


HALVES = {"devices": 4, "microbatches": 8, "forward": 10, "backward_input": 10, "backward_weight": 10}


COSTS = {"gather": 15, "reduce": 30, "optimizer": 5}


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


def memory(config: dict[str, Any], whole: Whole) -> list[Fraction]:
    """Static memory and the peak of each device."""
    return [peak + static for peak, static in zip(whole.peak, read_step(config).statics(), strict=True)]


@pytest.mark.parametrize(
    ("config", "rows", "times", "costs", "exposed"),
    [
        (FOUR | {"reduce": 20}, orders.one_f_one_b(4, 8), (350, 350, 330, 20), (0, 20, 0, 0), "0REDUCE_GRAD"),
        (FOUR | COSTS, orders.one_f_one_b(4, 8), (380, 380, 330, 45), (15, 30, 0, 5), "0UNSHARD0 0REDUCE_GRAD"),
        (
            FOUR | COSTS | {"tied": 8}, orders.one_f_one_b(4, 8), (388, 388, 330, 53), (15, 30, 8, 5),
            "0UNSHARD0 0REDUCE_GRAD 0REDUCE_TIED 3REDUCE_TIED",
        ),
        (HALVES | COSTS, orders.zero_bubble(4, 8, 2), (320, 290, 270, 45), (15, 30, 0, 5), "0UNSHARD0 3REDUCE_GRAD"),
        (
            HALVES | COSTS | {"clip": True}, orders.zero_bubble(4, 8, 2), (320, 320, 270, 45), (15, 30, 0, 5),
            "0UNSHARD0 3REDUCE_GRAD",
        ),
        (
            HALVES | COSTS, orders.zero_bubble(4, 8, 1), (320, 320, 270, 45), (15, 30, 0, 5),
            "0UNSHARD0 0REDUCE_GRAD 1REDUCE_GRAD 2REDUCE_GRAD 3REDUCE_GRAD",
        ),
        (
            FOUR | {"stages": 8, "placement": "loop", "forward": 5, "backward": 10}
            | {"gather": 8, "reduce": 15, "optimizer": 2},
            orders.interleaved(4, 2, 8), (310, 310, 285, 21), (8, 13, 0, 2), "0UNSHARD0 0REDUCE_GRAD",
        ),
    ],
)  # fmt: skip
def test_what_a_step_costs(
    config: dict[str, Any], rows: Rows, times: tuple[int, ...], costs: tuple[int, ...], exposed: str
) -> None:
    """Makespan, span, pipeline and network; exposed gather, reduce, tied and optimizer; operations without slack."""
    whole = replayed(config, rows)
    assert [whole.makespan, whole.span, whole.pipeline, whole.network] == [*times]
    assert [*whole.costs.values()] == [*costs]
    assert whole.exposed == exposed.split()


def test_bubble_of_a_step() -> None:
    """1F1B with a reduction of 20: every device waits 110 of 350."""
    whole = replayed(FOUR | {"reduce": 20}, orders.one_f_one_b(4, 8))
    assert round(float(1 - sum(whole.busy) / (4 * whole.makespan)), 7) == 0.3142857


@pytest.mark.parametrize(
    ("level", "costs", "makespan", "held"),
    [
        ("none", {"reduce": 8}, 263, 81), ("optimizer", {"gather": 2, "reduce": 4}, 261, 39),
        ("gradients", {"gather": 2, "reduce": 4}, 261, 41), ("weights", {"gather": 2, "reduce": 4}, 261, 40),
    ],
)  # fmt: skip
def test_levels(level: str, costs: dict[str, Any], makespan: int, held: int) -> None:
    """ZeRO 0 to 3 of eight ranks: makespan, and the memory of the first device."""
    config = TWO | costs | {"shard": {"level": level, "ranks": 8}}
    whole = replayed(config, INTERLEAVED)
    assert [whole.makespan, memory(config, whole)[0]] == [makespan, held]


def test_reduced_after_each_microbatch() -> None:
    """Gradients of 4 that each microbatch reduces again: peaks of 6 and 5 beside activations of 2 and 1."""
    shard = {"level": "gradients", "reduce": "each"}
    config = {"devices": 2, "microbatches": 4, "forward": 5, "backward": 10, "gradients": 4, "reduce": 3}
    whole = replayed(config | {"shard": shard}, orders.one_f_one_b(2, 4))
    assert whole.makespan == 78
    assert whole.peak == [6, 5]


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


def test_side_work_first() -> None:
    """An encoder of 2 and 4 ahead of and behind 1F1B: 177 instead of 165, 72 on two devices, 64 where it is frozen."""
    config = {"devices": 4, "microbatches": 8, "forward": 5, "backward": 10}
    assert replayed(config, orders.one_f_one_b(4, 8)).makespan == 165
    whole = replayed(config | {"side": [SIDE | {"activation": 0.5, "output": 0.1}]}, orders.one_f_one_b(4, 8))
    assert whole.makespan == 177
    assert [*map(float, whole.peak)] == [5.4, 4, 3, 2]
    small = {"devices": 2, "microbatches": 3, "forward": 5, "backward": 10}
    assert replayed(small | {"side": [SIDE]}, orders.one_f_one_b(2, 3)).makespan == 72
    assert replayed(small | {"side": [{"forward": 2}]}, orders.one_f_one_b(2, 3)).makespan == 64


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
