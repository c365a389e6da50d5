"""Ties: what decides between equals, and what `pairing` can do that no fixed order can."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from pipesched.core.listsched import PRIORITIES, TIES, list_schedule
from pipesched.core.tasks import NOWHERE, TaskGraph, arrow
from tests.core.graphs import dataflow, sum_of_products

# (a+b)*(c+d) + (e+f)*(g+h), 1 multiplier and 2 adders: (cycles of a multiplication, initiation interval) -> latency
# when the two sums of a product are added together, and when they are added crosswise.
LATENCIES = [((1, 1), 4, 5), ((2, 2), 6, 7), ((2, 1), 5, 6)]

CHAIN_AND_STAR = TaskGraph(
    [1] * 7, [0] * 7, [1], [arrow(0, 1), arrow(1, 2), arrow(3, 4), arrow(3, 5)]
)  # 0 -> 1 -> 2, 3 -> 4 and 5, 6 alone


def cycles(text: tuple[str, list[tuple[int, int]]], *units: int, priority: str, tie: str, seed: int = 0) -> int:
    """The latency of `text` by a rule."""
    graph, latencies = dataflow(*text, *units)
    starts = list_schedule(graph, priority=priority, tie=tie, seed=seed).starts
    return max(start + time for start, time in zip(starts, latencies, strict=True))


@pytest.mark.parametrize(("multiplier", "paired", "crossed"), LATENCIES)
@pytest.mark.parametrize("priority", PRIORITIES)
def test_pairing_is_optimal_in_every_order_of_the_input(
    multiplier: tuple[int, int], paired: int, crossed: int, priority: str
) -> None:
    """All 24 orders of the four additions: pairing always takes the optimum, whatever the priority."""
    for order in permutations(range(4)):
        assert cycles(sum_of_products(order), 1, 2, *multiplier, priority=priority, tie="pairing") == paired


@pytest.mark.parametrize(("multiplier", "paired", "crossed"), LATENCIES)
@pytest.mark.parametrize("priority", PRIORITIES)
def test_input_order_is_right_by_luck_only(
    multiplier: tuple[int, int], paired: int, crossed: int, priority: str
) -> None:
    """Input order pairs a+b with c+d; with the additions written as a+b, e+f, c+d, g+h it is a cycle later."""
    for order, expected in (((0, 1, 2, 3), paired), ((0, 2, 1, 3), crossed)):
        assert cycles(sum_of_products(order), 1, 2, *multiplier, priority=priority, tie="input") == expected


@pytest.mark.parametrize("priority", PRIORITIES)
def test_pairing_is_optimal_on_a_balanced_sum_of_sixteen_products(priority: str) -> None:
    """K=16, 4 adders, 2 multipliers: pairing takes the optimum of 13 in any order of the input, random never."""
    shuffle = Random(16)
    for seed in range(10):
        order = list(range(32))
        shuffle.shuffle(order)
        text = sum_of_products(order)
        assert cycles(text, 2, 4, priority=priority, tie="pairing") == 13
        assert 14 <= cycles(text, 2, 4, priority=priority, tie="random", seed=seed) <= 17


@pytest.mark.parametrize(
    ("tie", "picked"),
    [
        ("input", [0, 1, 2, 3, 4, 5, 6]), ("reverse", [6, 3, 5, 4, 0, 1, 2]), ("fifo", [0, 3, 6, 1, 4, 5, 2]),
        ("lifo", [0, 1, 2, 3, 4, 5, 6]), ("dfs", [0, 1, 2, 3, 4, 5, 6]), ("bfs", [0, 3, 6, 1, 4, 5, 2]),
        ("most-descendants", [0, 3, 1, 2, 4, 5, 6]), ("pairing", [0, 1, 2, 3, 4, 5, 6]),
    ],
)  # fmt: skip
def test_each_tie_on_a_small_graph(tie: str, picked: list[int]) -> None:
    """0 -> 1 -> 2, 3 -> 4 and 5, 6 alone on one machine, picked as the tie's one sentence says."""
    assert list_schedule(CHAIN_AND_STAR, tie=tie).picked == picked


def test_fifo_is_by_the_time_of_readiness_and_bfs_by_the_level() -> None:
    """A task of level 1 that has been ready for longer goes before one of level 0 in fifo, and after it in bfs."""
    # Machine 0: task 0 for 5 ticks, then 1, 2. Task 2 is ready at 1 (after 3), task 1 at 3 (a lag says so, after 4).
    graph = TaskGraph([5, 1, 1, 1, 1, 1], [0, 0, 0, 1, 2, 1], [1, 1, 1], [arrow(5, 2), arrow(3, 5), arrow(4, 1, 3)])
    assert [task for task in list_schedule(graph, tie="fifo").picked if task < 3] == [0, 2, 1]
    assert [task for task in list_schedule(graph, tie="bfs").picked if task < 3] == [0, 1, 2]
    assert [task for task in list_schedule(graph, tie="dfs").picked if task < 3] == [0, 2, 1]


def test_random_ties_are_repeated_by_their_seed() -> None:
    """The same seed gives the same order, and among ten seeds there are different ones, all of them complete."""
    graph = TaskGraph([1] * 9, [0] * 9, [1])
    orders = [tuple(list_schedule(graph, tie="random", seed=seed).picked) for seed in range(10)]
    assert orders == [tuple(list_schedule(graph, tie="random", seed=seed).picked) for seed in range(10)]
    assert len(set(orders)) > 1
    assert all(sorted(order) == list(range(9)) for order in orders)


@pytest.mark.parametrize("tie", [tie for tie in TIES if tie != "random"])
def test_the_seed_is_for_random_ties_only(tie: str) -> None:
    """Every other tie is deterministic: the seed changes nothing."""
    assert list_schedule(CHAIN_AND_STAR, tie=tie, seed=1) == list_schedule(CHAIN_AND_STAR, tie=tie, seed=2)


def test_pairing_waits_for_the_last_operand() -> None:
    """Of three operands the third completes the set: with one of them issued the others are still like strangers."""
    # Consumer 8 needs 0, 1, 6 and consumer 9 needs 2, 5, 7; 3 and 4 are wanted by nobody. One machine for 0..7.
    edges = [arrow(task, 8) for task in (0, 1, 6)] + [arrow(task, 9) for task in (2, 5, 7)]
    graph = TaskGraph([1] * 10, [0] * 8 + [1] * 2, [1, 1], edges)
    picked = [task for task in list_schedule(graph, tie="pairing").picked if task < 8]
    assert picked == [0, 1, 6, 2, 3, 4, 5, 7]


def test_pairing_counts_an_operand_that_was_issued_long_ago() -> None:
    """The other operand may have been issued in any cycle before, and its consumer may lie beyond a lag."""
    # 0 runs long before 1 and 2 are ready (after 3); 4 needs 0 and 2.
    edges = [arrow(3, 1), arrow(3, 2), arrow(0, 4, 3), arrow(2, 4, 7)]
    graph = TaskGraph([1, 1, 1, 6, 1], [0, 0, 0, 1, 1], [1, 1], edges)
    assert [task for task in list_schedule(graph, tie="pairing").picked if task < 3] == [0, 2, 1]


@pytest.mark.parametrize("resource", [1, NOWHERE])
def test_pairing_counts_an_operand_that_occupies_nothing(resource: int) -> None:
    """An operand that is issued on no resource is issued all the same: its partner completes the set."""
    # 3 (an input, at time 0) and 1 are the operands of 2; 0 and 1 are ready on one machine at time 1 (after 4).
    edges = [arrow(3, 2), arrow(1, 2), arrow(4, 0), arrow(4, 1)]
    graph = TaskGraph([1, 1, 1, 0, 1], [0, 0, 1, resource, 0], [1, 1], edges)
    assert [task for task in list_schedule(graph, tie="pairing").picked if task in {0, 1}] == [1, 0]
