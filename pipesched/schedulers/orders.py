"""The shape that most families share: warm-up forwards, a steady one-forward-one-backward, cool-down backwards."""

from __future__ import annotations

from collections.abc import Sequence


def one_forward_one_backward(forwards: Sequence[int], backwards: Sequence[int], warm_up: int) -> list[int]:
    """`warm_up` forwards (all, if there are fewer); then a forward and a backward in turn; then the backwards left."""
    warm_up = min(warm_up, len(forwards))
    steady = len(forwards) - warm_up
    order = [*forwards, *backwards]
    order[warm_up : warm_up + 2 * steady : 2] = forwards[warm_up:]
    order[warm_up + 1 : warm_up + 2 * steady : 2] = backwards[:steady]
    order[warm_up + 2 * steady :] = backwards[steady:]
    return order
