"""Orders by rule: verl's, by work, and all orders of microbatches of which some are equal."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import make_problem, run
from pipesched.pipeline.problem.problem import equals
from pipesched.schedulers.ordering import count_orders, every_order, in_turn, rules, verl, works
from tests.oracle import orders


def one_a_device(**values: Any) -> Any:
    return make_problem(devices=2, **values)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=9))
def test_verl_as_published(work: list[int]) -> None:
    """Equal work is told apart by the number, as in verl's `rearrange_micro_batches`."""
    assert verl(one_a_device(sizes={"work": work})) == tuple(orders.verl(work))


@pytest.mark.parametrize(
    ("values", "work"),
    [
        ({"forward": [[1, 4], 2], "backward": [[2, 1], 3]}, [8, 10]),
        ({"forward": [[1, 4], 2], "backward": [[2, 1], 3], "mode": "forward"}, [3, 6]),
        ({"forward": 2, "backward_input": [[3, 0], 1], "backward_weight": 1, "sizes": {"work": [1, 2]}}, [10, 14]),
        ({"forward": [1, [2, 3]], "speed": [2, 0.5]}, [9, 12]),
        ({"forward": 2, "backward": 4, "sizes": {"work": [2, 3]}, "slices": {"count": 2, "overhead": 1}}, [32, 44]),
    ],
)
def test_work_of_a_microbatch(values: dict[str, Any], work: list[int]) -> None:
    """It is what F and B last on all stages, of forward passes F alone, whatever the speed of the devices."""
    problem = one_a_device(**values)
    per_unit = make_problem(devices=2, **{**values, "speed": None}).ticks.per_unit
    assert [one / per_unit for one in works(problem)] == work


def test_four_rules() -> None:
    """A search begins from the microbatches as given, verl's order, and both orders by work."""
    assert rules(one_a_device(sizes={"work": [2, 3, 1]})) == [(0, 1, 2), (2, 1, 0), (2, 0, 1), (1, 0, 2)]


@pytest.mark.parametrize(
    ("values", "first"),
    [
        ({"sizes": {"work": [1, 2, 1, 2]}}, [0, 1, 0, 1]),
        ({"sizes": {"work": [1, 2, 1, 2], "activation": [1, 1, 1, 2]}}, [0, 1, 0, 3]),
        ({"sizes": {"work": [1, 2, 1, 2]}, "p2p": [[0, 0, 1, 0]]}, [0, 1, 2, 1]),
        ({"forward": [[1, 1, 1, 1], [2, 2, 2, 2]]}, [0, 0, 0, 0]),
        ({"microbatches": 4}, [0, 0, 0, 0]),
    ],
)
def test_equal_microbatches(values: dict[str, Any], first: list[int]) -> None:
    """They have the same factors, and the same entries in every table."""
    assert equals(one_a_device(**values)) == first


@pytest.mark.parametrize(("rule", "order"), [("longest", (2, 0, 3, 1)), ("shortest", (1, 0, 3, 2))])
def test_by_work_as_an_option(rule: str, order: tuple[int, ...]) -> None:
    """`longest` and `shortest` feed by work, equal microbatches by their numbers, and say so."""
    problem = make_problem(devices=2, sizes={"work": [2, 1, 3, 2]})
    outcome = run(problem, "1f1b", order=rule)
    assert outcome.order == order
    assert outcome.ordering is not None
    assert outcome.ordering.source("1f1b") == f"{rule} first"


@st.composite
def drawn_equals(draw: st.DrawFn) -> list[int]:
    """Of up to six microbatches the first that equals each."""
    kinds = draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    return [kinds.index(kind) for kind in kinds]


@given(drawn_equals())
def test_every_order_once(equal: list[int]) -> None:
    """They are the permutations in which equal microbatches stand by their numbers, in lexicographical order."""
    expected = [
        order
        for order in permutations(range(len(equal)))
        if all(
            order.index(first) < order.index(one) for one in order for first in range(one) if equal[first] == equal[one]
        )
    ]
    assert [*map(tuple, every_order(equal).tolist())] == expected
    assert count_orders(equal) == len(expected)


@given(drawn_equals(), st.randoms(use_true_random=False))
def test_equal_ones_in_turn(equal: list[int], random: object) -> None:
    """Of all orders with the same kinds in the same places, that one comes first."""
    order = random.sample(range(len(equal)), len(equal))  # type: ignore[attr-defined]
    same = [
        other
        for other in permutations(range(len(equal)))
        if all(equal[one] == equal[two] for one, two in zip(order, other, strict=True))
    ]
    assert in_turn(order, equal) == min(same)


@pytest.mark.parametrize(("equal", "count"), [([0] * 64, 1), ([0] * 7 + [7], 8), ([*range(20)], 2432902008176640000)])
def test_how_many(equal: list[int], count: int) -> None:
    """Equal microbatches make few orders of many; different ones more than any machine tries."""
    assert count_orders(equal) == count
