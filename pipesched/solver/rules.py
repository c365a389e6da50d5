"""Priorities of list scheduling for a case: what is urgent under its budget. Least key first, ties in order.

Each rule is a function from a case to one key a task. Some say which kind of operation goes first on a device that
could run several, others use the longest paths of the ordered graph, capacity edges included.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import add

from pipesched.core.paths import tails
from pipesched.solver.case import Case

Rule = Callable[[Case], list[int]]


def longest_tail(case: Case) -> list[int]:
    """Rank by the path to the end, the longest first."""
    return [-length for length in map(add, tails(case.ordered), case.graph.durations)]


def least_slack(case: Case) -> list[int]:
    """Rank by head less tail, the least first: what can start early and is far from the end."""
    return list(map(add, case.heads, longest_tail(case)))


def _by_kind(kinds: str, deep: int, case: Case) -> list[int]:
    """Rank by kind in this order (B is as I), then the oldest microbatch, then the first stage (deep -1: the last)."""
    stages, count = case.index.stages, case.index.units

    def keys(kind: str, stage: int) -> range:
        first = _rank(kinds, kind) * count * stages + (stage if deep > 0 else stages - 1 - stage)
        return range(first, first + count * stages, stages)

    return case.index.spread(keys)


def _by_stage(kinds: str, case: Case) -> list[int]:
    """Rank by kind in this order (B is as I), then the deepest stage, then the oldest microbatch."""
    stages, count = case.index.stages, case.index.units

    def keys(kind: str, stage: int) -> range:
        first = (_rank(kinds, kind) * stages + stages - 1 - stage) * count
        return range(first, first + count)

    return case.index.spread(keys)


def _rank(kinds: str, kind: str) -> int:
    return kinds.index("I" if kind == "B" else kind)


RULES: dict[str, Rule] = {  # the best of the most cases first: of large problems only the first few are tried
    "backward-first": partial(_by_kind, "IFW", 1),
    "deepest-backward-first": partial(_by_stage, "IFW"),
    "longest-tail": longest_tail,
    "forward-first": partial(_by_kind, "FIW", 1),
    "backward-deep-first": partial(_by_kind, "IFW", -1),
    "least-slack": least_slack,
    "weights-before-forward": partial(_by_kind, "IWF", -1),
}
