"""Orders that families share: warm-up forwards, a steady one-forward-one-backward, cool-down backwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.units import FORWARD_ONLY


def one_forward_one_backward(forwards: Sequence[int], backwards: Sequence[int], warm_up: int) -> list[int]:
    """Return `warm_up` forwards (all, if fewer); then a forward and a backward in turn; then the backwards left."""
    warm_up = min(warm_up, len(forwards))
    steady = len(forwards) - warm_up
    order = [*forwards, *backwards]
    order[warm_up : warm_up + 2 * steady : 2] = forwards[warm_up:]
    order[warm_up + 1 : warm_up + 2 * steady : 2] = backwards[:steady]
    order[warm_up + 2 * steady :] = backwards[steady:]
    return order


def plain_index(problem: Problem) -> OpIndex:
    """Return numbers for F and B of every unit; where only forwards run, for those."""
    letters = "F" if problem.mode == FORWARD_ONLY else "FB"
    return OpIndex(letters, problem.stages, problem.microbatches, problem.slices.count)


def last_slice_first(index: OpIndex, row: Sequence[int]) -> Sequence[int]:
    """Return a row of operations with the slices of each microbatch from last to first, as backwards run."""
    if index.slices == 1:
        return row
    order, slices = [*row], index.slices
    for part in range(slices):
        order[part::slices] = row[slices - 1 - part :: slices]
    return order


def linear_plan(problem: Problem, warm_up: Callable[[int], int]) -> Plan:
    """Return the plan of one stage a device that runs `warm_up(d)` forwards, then a forward and a backward in turn."""
    index = plain_index(problem)
    orders = [
        one_forward_one_backward(
            index.row("F", device), last_slice_first(index, index.row("B", device)), warm_up(device)
        )
        for device in range(problem.devices)
    ]
    return Plan(index, orders)


def forwards_over_backwards(
    forwards: Sequence[int], backwards: Sequence[int], warm_up: int
) -> tuple[list[int], dict[int, int]]:
    """Return that order with each steady forward and backward as a pair, and the pairs as forward -> backward."""
    warm_up = min(warm_up, len(forwards))
    steady = len(forwards) - warm_up
    pairs = dict(zip(forwards[warm_up:], backwards, strict=False))
    return [*forwards, *backwards[steady:]], pairs


def split_one_forward_one_backward(
    forwards: Sequence[int], inputs: Sequence[int], weights: Sequence[int], warm_up: int, delay: int
) -> list[int]:
    """Return `warm_up` forwards; then for each I a forward if any is left, the I, and the W of the I `delay` before it.

    The W that are left come last.
    """
    warm_up = min(warm_up, len(forwards))
    order = list(forwards[:warm_up])
    for position, backward in enumerate(inputs):
        order += forwards[warm_up + position : warm_up + position + 1]
        order.append(backward)
        if position >= delay:
            order.append(weights[position - delay])
    return [*order, *weights[max(len(inputs) - delay, 0) :]]
