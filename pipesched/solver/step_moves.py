"""Local search of problems with a step: slots move on their device, side work to other ones, and lanes follow the rule.

What gains nothing is kept where it loses nothing, so that the search does not stand still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from pipesched.core.clock import Clock
from pipesched.pipeline.ops import Op, Pair
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.step import SideItem
from pipesched.pipeline.step_plan import SIDE_KINDS
from pipesched.solver.policy import MovePolicy

Rows = list[list[Op]]


def moved_schedules(
    schedule: Schedule,
    timed: Callable[[Rows], Schedule | None],
    value_of: Callable[[Schedule], int],
    policy: MovePolicy,
    seed: int,
    clock: Clock,
) -> Iterator[Schedule]:
    """Yield ever better schedules until many moves in turn gain nothing, or the time is up.

    `timed` gives the schedule of slots, None for an order that waits for ever, and `value_of` what is to be least.
    """
    random, problem = Random(seed), schedule.problem
    rows = [[op for op in schedule.plan.slots(device) if not isinstance(op, Pair)] for device in range(problem.devices)]
    least = value = value_of(schedule)
    most, fruitless = policy.fruitless + policy.each * sum(map(len, rows)), 0
    while fruitless < most and not clock.is_over:
        fruitless += 1
        moved = _moved(problem.side, rows, random, policy.farthest)
        found = timed(moved)
        if found is None or value_of(found) > value or not found.fits:
            continue
        rows, value = moved, value_of(found)
        if value < least:
            least, fruitless = value, 0
            yield found


def _moved(side: tuple[SideItem, ...], rows: Rows, random: Random, farthest: int) -> Rows:
    """Return the rows with one slot at another place, side work perhaps on another device."""
    rows = [[*row] for row in rows]
    row = random.choice([row for row in rows if row])
    place = random.randrange(len(row))
    op = row[place]
    if op.kind in SIDE_KINDS and len(side[op.stage].devices) > 1 and random.random() < 1 / 2:
        return _handed_on(rows, op, random.choice(side[op.stage].devices), random)
    row.insert(max(place + random.choice((-1, 1)) * random.randint(1, farthest), 0), row.pop(place))
    return rows


def _handed_on(rows: Rows, op: Op, device: int, random: Random) -> Rows:
    """Return the rows with the side work of a microbatch on a device, its forward anywhere, its backward behind it."""
    both = [one for row in rows for one in row if one.kind in SIDE_KINDS and one[0] == op[0] and one[2] == op[2]]
    rows = [[one for one in row if one not in both] for row in rows]
    place = 0
    for one in sorted(both, key=lambda one: SIDE_KINDS.index(one.kind)):
        place = random.randint(place, len(rows[device]))
        rows[device].insert(place, one)
        place += 1
    return rows
