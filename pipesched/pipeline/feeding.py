"""Microbatches in another order, and plans of them; and the mean microbatch, by which families plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import Any

from pipesched.pipeline.costs import PER_STAGE, Entry, entries_of
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import LanePair, Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, canonical, rounded, to_fraction

COLUMNS = (*PER_STAGE, "p2p")


def in_order(problem: Problem, order: Sequence[int]) -> Problem:
    """Return the problem whose i-th microbatch is `order[i]` of this one: a list of all microbatches."""

    def taken(entries: Sequence[Entry] | None) -> tuple[Entry, ...] | None:
        if entries is None:
            return None
        return tuple(tuple(entry[one] for one in order) if isinstance(entry, tuple) else entry for entry in entries)

    tables: dict[str, Any] = {key: taken(getattr(problem.costs, key)) for key in COLUMNS}
    activation: Any = taken(problem.memory.activation)
    return replace(
        problem,
        costs=replace(problem.costs, **tables),
        memory=replace(problem.memory, activation=activation),
        sizes=problem.sizes and problem.sizes.taken(order),
    )


def renumbered(plan: Plan, order: Sequence[int]) -> Plan:
    """Return a plan of `in_order(problem, order)` with the numbers that the microbatches have in `problem`."""
    index = plan.index
    new = _numbers(index, order)

    def named(numbers: Sequence[int]) -> list[int]:
        return [new[number] for number in numbers]

    return replace(
        plan,
        orders=[*map(named, plan.orders)],
        pairs={new[forward]: new[backward] for forward, backward in plan.pairs.items()},
        lanes=[LanePair(named(pair.offloads), named(pair.reloads)) for pair in plan.lanes],
        waits=[(new[before], new[after]) for before, after in plan.waits],
    )


def _numbers(index: OpIndex, order: Sequence[int]) -> list[int]:
    """Return the new number of each operation."""
    units = [*chain.from_iterable(range(one * index.slices, (one + 1) * index.slices) for one in order)]
    return index.spread(lambda kind, stage: [index.row(kind, stage)[unit] for unit in units])


def typical(problem: Problem) -> Problem:
    """Return the problem with all microbatches like their mean, in nine digits; slices and mode stay.

    A plan of it does not depend on the order in which microbatches are fed.
    """
    if not differs(problem):
        return problem
    sizes = problem.sizes
    ones = (1,) * problem.microbatches
    work, held, sent = (sizes.work, sizes.activation, sizes.message) if sizes else (ones, ones, ones)
    by_key = {"p2p": sent, "offload": held, "reload": held}
    columns: dict[str, Any] = {
        key: tuple(_mean(entry, by_key.get(key, work)) for entry in column)
        for key in COLUMNS
        if key != "overlap" and (column := getattr(problem.costs, key)) is not None
    }
    activation = tuple(_mean(entry, held) for entry in problem.memory.activation)
    return replace(
        problem,
        costs=replace(problem.costs, **columns, resolution=1),
        memory=replace(problem.memory, activation=activation),
        sizes=None,
        layers=None,
        cutter=None,
    )


def differs(problem: Problem) -> bool:
    """Return whether some microbatches are unlike others."""
    return problem.sizes is not None or (problem.costs.microbatches, problem.memory.microbatches) != (None, None)


def equals(problem: Problem) -> list[int]:
    """Return of each microbatch the first one that equals it in every table and factor."""
    columns: list[Sequence[object]] = [] if problem.sizes is None else [*vars(problem.sizes).values()]
    tables = [getattr(problem.costs, key) or () for key in COLUMNS] + [problem.memory.activation]
    columns += [entry for table in tables for entry in table if isinstance(entry, tuple)]
    known: dict[tuple[object, ...], int] = {}
    return [known.setdefault(tuple(column[one] for column in columns), one) for one in range(problem.microbatches)]


def alike(problem: Problem) -> Sequence[Sequence[int]]:
    """Return the microbatches in groups that equal each other and go the same way, by their numbers."""
    ways = problem.settled_placement.directions(problem.microbatches)
    if not differs(problem):
        return ways
    first = equals(problem)
    groups: dict[tuple[int, int], list[int]] = {}
    for way, microbatches in enumerate(ways):
        for microbatch in microbatches:
            groups.setdefault((way, first[microbatch]), []).append(microbatch)
    return [*groups.values()]


def _mean(entry: Entry, factors: Sequence[Exact]) -> Exact:
    products = (one * to_fraction(by) for one, by in zip(entries_of(entry, len(factors)), factors, strict=True))
    return canonical(rounded(sum(products, Fraction(0)) / len(factors)))
