"""Joined backwards: a W that directly follows its I runs with it as one whole backward, where that is shorter.

That is where the costs give the whole backward beside its halves, and it takes less than both. It frees all of an
activation at its end, and its gradient is there no sooner.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise

from pipesched.core.arrays import column, np
from pipesched.core.timing import Retiming, Times
from pipesched.errors import InvalidSchedule
from pipesched.pipeline.kinds import KINDS, LETTERS
from pipesched.pipeline.lowering import lower_plan
from pipesched.pipeline.plan import Plan, with_parts
from pipesched.pipeline.problem import Problem

MOST_REPLAYED = 4_000_000  # operations, in all timings of a plan with one join less


def joined(problem: Problem, plan: Plan) -> Plan:
    """Return a plan of passes, or the same with every W joined that directly follows its I, whichever is shorter.

    Then single joins are undone, the latest first, while that makes it shorter still.
    """
    if not problem.costs.chooses or "W" not in plan.index.letters:
        return plan
    pairs = [*_adjacent(problem, plan)]
    if not pairs:
        return plan
    graph = lower_plan(problem, plan)
    replay = Retiming(graph, plan.machines)
    try:
        apart = replay.times()
    except InvalidSchedule:  # for who times it to say
        return plan
    lasts = {KINDS[letter].cost: problem.model.ticks[KINDS[letter].cost].ravel() for letter in "BIW"}
    ends = plan.index.stages * plan.index.units
    durations = graph.duration.copy()
    inputs, weights = (column(numbers) for numbers in zip(*pairs, strict=True))
    durations[inputs], durations[weights] = lasts["backward"][inputs % ends], 0
    times = replay.changed(apart, durations, 0)
    left, weight_of = dict.fromkeys(i for i, _ in pairs), dict(pairs)
    effort = MOST_REPLAYED // len(graph)
    while effort > 0:
        critical = replay.critical(times)
        on_path = sorted((one for one in left if critical[one]), key=lambda one: -int(times.start[one]))
        for one in on_path[:effort]:
            effort -= 1
            changed = durations.copy()
            for number, cost in ((one, "backward_input"), (weight_of[one], "backward_weight")):
                changed[number] = lasts[cost][number % ends]
            found = replay.changed(times, changed, int(times.start[one]))
            if _length(found) < _length(times):
                times, durations = found, changed
                del left[one]
                break
        else:
            break
    return with_joins(plan, {one: weight_of[one] for one in left}) if _length(times) < _length(apart) else plan


def _adjacent(problem: Problem, plan: Plan) -> Iterator[tuple[int, int]]:
    """Yield each I, and its W, that follow each other on a device and take longer than the whole."""
    index, ticks = plan.index, problem.model.ticks
    is_shorter = (ticks["backward"] < ticks["backward_input"] + ticks["backward_weight"]).ravel()
    row = index.of_kind("I")
    for before, after in chain.from_iterable(map(pairwise, plan.orders)):
        if before in row and after == index.counterpart(before, "W") and is_shorter[before - row.start]:
            yield before, after


def _length(times: Times) -> int:
    return int(times.end.max())


def with_joins(plan: Plan, joins: dict[int, int]) -> Plan:
    """Return a plan of passes in which each of these I runs with the W that it maps to as one whole backward."""
    letters = "".join(letter for letter in LETTERS if letter in {*plan.index.letters, "B"})
    index, gone = plan.index._replace(letters=letters), {*joins.values()}
    shifts = {letter: index.of_kind(letter).start - plan.index.of_kind(letter).start for letter in plan.index.letters}
    shift = np.repeat([*shifts.values()], plan.index.stages * plan.index.units)
    number = np.arange(plan.index.passes) + shift
    for one in joins:
        number[one] = index.counterpart(number[one], "B")

    def named(numbers: list[int] | range) -> list[int]:
        return number[[one for one in numbers if one not in gone]].tolist()  # type: ignore[no-any-return]

    pairs = {int(number[forward]): int(number[backward]) for forward, backward in plan.pairs.items()}
    return with_parts(plan, index=index, orders=[named([*order]) for order in plan.orders], pairs=pairs)
