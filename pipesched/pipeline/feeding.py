"""Microbatches in another order, and plans of them; and the mean microbatch, by which families plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import Any

from pipesched.pipeline.costs import PER_STAGE, Entry, entries_of, taken
from pipesched.pipeline.plan import LanePair, Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, canonical, rounded, to_fraction
from pipesched.pipeline.step import SideItem
from pipesched.pipeline.units import FACTORS

COLUMNS = (*PER_STAGE, "p2p")


def in_order(problem: Problem, order: Sequence[int]) -> Problem:
    """Return the problem whose i-th microbatch is `order[i]` of this one: a list of all microbatches."""
    columns = {key: getattr(problem.costs, key) for key in COLUMNS}
    tables: dict[str, Any] = {key: taken(column, order) for key, column in columns.items() if column is not None}
    return replace(
        problem,
        costs=replace(problem.costs, **tables),
        memory=replace(problem.memory, activation=taken(problem.memory.activation, order)),
        sizes=problem.sizes and problem.sizes.taken(order),
        layers=problem.layers and problem.layers.taken(order),
        side=tuple(_item_of(item, lambda times: taken([times], order)[0]) for item in problem.side),
    )


def _item_of(item: SideItem, change: Callable[[tuple[Exact, ...]], Any]) -> SideItem:
    """Return side work with its times changed where there is one for each microbatch."""
    return replace(item, **{key: change(times) for key, times in _times_of_each(item)})


def _times_of_each(item: SideItem) -> Iterator[tuple[str, tuple[Exact, ...]]]:
    """Yield which times of an item are of each microbatch, with them."""
    for key in ("forward", "backward"):
        times = getattr(item, key)
        if times is not None and len(times) > 1:
            yield key, times


def renumbered(plan: Plan, order: Sequence[int]) -> Plan:
    """Return a plan of `in_order(problem, order)` with the numbers that the microbatches have in `problem`."""
    index = plan.index
    units = [*chain.from_iterable(range(one * index.slices, (one + 1) * index.slices) for one in order)]
    new = index.spread(lambda kind, stage: [index.row(kind, stage)[unit] for unit in units])

    def named(numbers: Sequence[int]) -> list[int]:
        return [new[number] for number in numbers]

    return replace(
        plan,
        orders=[*map(named, plan.orders)],
        pairs={new[forward]: new[backward] for forward, backward in plan.pairs.items()},
        lanes=[LanePair(named(pair.offloads), named(pair.reloads)) for pair in plan.lanes],
        waits=[(new[before], new[after]) for before, after in plan.waits],
    )


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
        side=tuple(_item_of(item, lambda times: (_mean(times, ones),)) for item in problem.side),
    )


def differs(problem: Problem) -> bool:
    """Return whether some microbatches are unlike others."""
    tables = problem.costs.microbatches, problem.memory.microbatches
    beside = any(True for item in problem.side for _ in _times_of_each(item))
    return problem.sizes is not None or tables != (None, None) or beside


def equals(problem: Problem) -> list[int]:
    """Return of each microbatch the first one that equals it in every table and factor, and in its side work."""
    columns: list[Sequence[object]] = [] if problem.sizes is None else [getattr(problem.sizes, key) for key in FACTORS]
    tables = [getattr(problem.costs, key) or () for key in COLUMNS] + [problem.memory.activation]
    columns += [entry for table in tables for entry in table if isinstance(entry, tuple)]
    columns += [times for item in problem.side for _, times in _times_of_each(item)]
    known: dict[tuple[object, ...], int] = {}
    return [known.setdefault(tuple(column[one] for column in columns), one) for one in range(problem.microbatches)]


def alike(problem: Problem) -> Sequence[Sequence[int]]:
    """Return the microbatches in groups that equal each other and go the same way, by their numbers."""
    placement, count = problem.settled_placement, problem.microbatches
    if problem.rounds > 1 and problem.memory.kv:  # what ran more of its rounds holds more
        return [[one] for one in range(count)]
    if not differs(problem) and placement.second is None:
        return placement.directions(count)
    groups: dict[tuple[bool, int], list[int]] = {}
    for microbatch, first in enumerate(equals(problem)):
        groups.setdefault((placement.is_second(microbatch, count), first), []).append(microbatch)
    return [*groups.values()]


def _mean(entry: Entry, factors: Sequence[Exact]) -> Exact:
    products = (one * to_fraction(by) for one, by in zip(entries_of(entry, len(factors)), factors, strict=True))
    return canonical(rounded(sum(products, Fraction(0)) / len(factors)))
