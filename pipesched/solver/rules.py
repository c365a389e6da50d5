"""Priorities of list scheduling that know the case: what is urgent under its budget. Least key first, ties in order.

Each rule is a function from a case to one key a task. Some say which kind of operation goes first on a device that
could run several, others read the paths of the ordered graph, capacity edges included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import add
from typing import Any

from pipesched.core.paths import tails
from pipesched.solver.case import Case

Rule = Callable[[Case], list[int]]


def longest_tail(case: Case) -> list[int]:
    """The longest path to the end first."""
    return [-length for length in map(add, tails(case.ordered), case.graph.durations)]


def least_slack(case: Case) -> list[int]:
    """The least head less tail first: what can start early and has far to go."""
    return list(map(add, case.heads, longest_tail(case)))


def _by_kind(kinds: str, deep: int, case: Case) -> list[int]:
    """Kinds in this order (B counts as I), then the oldest microbatch, then the first stage, or the last (deep -1)."""
    index = case.index
    keys: list[Any] = []
    for kind in index.kinds:
        rank = kinds.index("I" if kind == "B" else kind)
        for stage in range(index.stages):
            keys += [(rank, microbatch, deep * stage) for microbatch in range(index.microbatches)]
    return ranks(keys)


def _by_stage(kinds: str, case: Case) -> list[int]:
    """Kinds in this order, then the deepest stage, then the oldest microbatch."""
    index = case.index
    keys: list[Any] = []
    for kind in index.kinds:
        rank = kinds.index("I" if kind == "B" else kind)
        for stage in range(index.stages):
            keys += [(rank, -stage, microbatch) for microbatch in range(index.microbatches)]
    return ranks(keys)


def ranks(keys: Sequence[Any]) -> list[int]:
    """Keys as numbers of the same order."""
    number = {key: place for place, key in enumerate(sorted(set(keys)))}
    return [number[key] for key in keys]


RULES: dict[str, Rule] = {  # the best of the most cases first: of large problems only the first few are tried
    "backward-first": partial(_by_kind, "IFW", 1),
    "deepest-backward-first": partial(_by_stage, "IFW"),
    "longest-tail": longest_tail,
    "forward-first": partial(_by_kind, "FIW", 1),
    "backward-deep-first": partial(_by_kind, "IFW", -1),
    "least-slack": least_slack,
    "weights-before-forward": partial(_by_kind, "IWF", -1),
}
