"""The shapes that families share: warm-up forwards, a steady one-forward-one-backward, cool-down backwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem


def one_forward_one_backward(forwards: Sequence[int], backwards: Sequence[int], warm_up: int) -> list[int]:
    """`warm_up` forwards (all, if there are fewer); then a forward and a backward in turn; then the backwards left."""
    warm_up = min(warm_up, len(forwards))
    steady = len(forwards) - warm_up
    order = [*forwards, *backwards]
    order[warm_up : warm_up + 2 * steady : 2] = forwards[warm_up:]
    order[warm_up + 1 : warm_up + 2 * steady : 2] = backwards[:steady]
    order[warm_up + 2 * steady :] = backwards[steady:]
    return order


def linear_plan(problem: Problem, warm_up: Callable[[int], int]) -> Plan:
    """One stage a device: `warm_up(d)` forwards, then one forward and one backward in turn."""
    index = OpIndex("FB", problem.stages, problem.microbatches)
    orders = [
        one_forward_one_backward(index.row("F", device), index.row("B", device), warm_up(device))
        for device in range(problem.devices)
    ]
    return Plan(index, orders)


def forwards_over_backwards(
    forwards: Sequence[int], backwards: Sequence[int], warm_up: int
) -> tuple[list[int], dict[int, int]]:
    """The same with each steady forward and backward as one overlapped pair: the order, and forward -> backward."""
    warm_up = min(warm_up, len(forwards))
    steady = len(forwards) - warm_up
    pairs = dict(zip(forwards[warm_up:], backwards, strict=False))
    return [*forwards, *backwards[steady:]], pairs


def split_one_forward_one_backward(
    forwards: Sequence[int], inputs: Sequence[int], weights: Sequence[int], warm_up: int, delay: int
) -> list[int]:
    """`warm_up` forwards; then for each I in turn: a forward if one is left, the I, and the W of `delay` backwards
    before; then the W left."""
    warm_up = min(warm_up, len(forwards))
    order = list(forwards[:warm_up])
    for place, backward in enumerate(inputs):
        order += forwards[warm_up + place : warm_up + place + 1]
        order.append(backward)
        if place >= delay:
            order.append(weights[place - delay])
    return [*order, *weights[max(len(inputs) - delay, 0) :]]
