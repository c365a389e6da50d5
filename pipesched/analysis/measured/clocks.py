"""The steps of a run on one clock: differences of clocks that messages allow, and when inputs were there.

`aligned` is where one begins: `messages` lists what went between ranks, `align` finds the clocks, `_bounds` what
messages allow, `_least_slack` a choice within. Equal lengths stand behind these, then graph algorithms. `ahead` is the
clock of each rank less that of the first.

A bound (i, j) of w: clock j is ahead of clock i by at most w ticks. Such constraints can be met exactly when no cycle
of them has a negative sum. The shortest path from i to j is then the tightest bound that follows (Cormen, Leiserson,
Rivest, Stein: Introduction to Algorithms, difference constraints; Johnson's algorithm).

A message bounds two clocks: the sender's range ends (`sent`) before the receiver's operation begins. Where ranges have
their waiting apart, the operation begins with its range. Else it begins at the latest at the end of its range, less the
least time of its kind. Operations tell that time whose inputs were there at their start, whatever the clocks are. Of
clocks that meet all bounds, those are taken at which operations of a kind take most nearly equal times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain
from math import gcd, inf, sqrt
from statistics import median_low
from typing import NamedTuple

from pipesched.analysis.measured.files import Steps
from pipesched.analysis.measured.ranges import PER_UNIT, Range, Recorded, TraceSource, ops_of
from pipesched.core.arrays import round_up
from pipesched.errors import InvalidSchedule
from pipesched.pipeline.problem.kinds import KINDS
from pipesched.pipeline.problem.ops import Op, Pair as PairSlot, Slot
from pipesched.pipeline.problem.quantities import in_units

Pair = tuple[int, int]
Bounds = Mapping[Pair, int]
Kind = tuple[str, int, int]  # of a slot: its letter and stage, and the stage of a pair's backward
Clocks = tuple[Sequence[int], frozenset[Kind]]  # of each rank less that of the first, and kinds that always waited
Transit = tuple[tuple[int, bool], int]  # of a message: its boundary, whether forwards, and the ticks that it took
LateArrival = tuple[int, int]  # a range's length, and how much later it ends than its input was sent, by their clocks
ROUNDING = PER_UNIT // 500  # what the times of two ends of a range may be rounded by: 2 ns in us
PASSES = 2  # where pairs have inputs of two ranks, of which the later one counts
STEADY = 4  # messages of which half differ by less than this part of their room took so long on their way
LITTLE = 20  # room of less than so many parts of an operation is what messages take


class AlignedStep(NamedTuple):
    """A step on the clock of the first rank: `ranges[r]` are those of rank r, without what they waited.

    Each has the wait for its messages from other ranks, where that is known. `ahead` is the clock of each rank less
    that of the first, in ticks.
    """

    name: str
    ranges: Sequence[Sequence[Range]]
    ahead: Sequence[int]

    @property
    def makespan(self) -> int:
        """Last end less first start of what devices ran, in ticks."""
        ran = [one for one in chain(*self.ranges) if not is_transfer(one.slot)]
        return max(one.end for one in ran) - min(one.start for one in ran)


class Aligned(NamedTuple):
    """All steps of a run on one clock, and the kinds of operations that always waited: their length is in doubt."""

    steps: Sequence[AlignedStep]
    waited: frozenset[Kind]

    @property
    def typical(self) -> AlignedStep:
        """The step of median makespan, of an even number the shorter one of the middle."""
        middle = median_low(step.makespan for step in self.steps)
        return next(step for step in self.steps if step.makespan == middle)

    def lengths(self, microbatch: int | None = None) -> dict[tuple[str, int], list[int]]:
        """Return how long the operations of each kind and stage took, in ticks; pairs by the stage of their forward.

        Those of one microbatch, if it is given; a pair is of the microbatch of its forward.
        """
        found: dict[tuple[str, int], list[int]] = {}
        for one in chain.from_iterable(chain(*step.ranges) for step in self.steps):
            if microbatch is None or ops_of(one.slot)[0].microbatch == microbatch:
                found.setdefault(kind_of(one.slot)[:2], []).append(one.end - one.start)
        return found


def aligned(source: TraceSource, ranks: Sequence[Recorded], steps: Steps) -> Aligned:
    """Return the steps on one clock. Raises InvalidSchedule where no clocks fit the messages."""
    apart, numbers, unit = any(rank.apart for rank in ranks), [rank.rank for rank in ranks], source.unit
    every = range(len(steps.names))
    if source.one_clock:
        clocks: list[Clocks] = [([0] * len(numbers), frozenset())] * len(every)
    elif source.clock_a_step:
        clocks = [align(messages(steps, [step], apart=apart), numbers, unit) for step in every]
    else:
        clocks = [align(messages(steps, every, apart=apart), numbers, unit)] * len(every)
    found = []
    for name, ranges, (ahead, _) in zip(steps.names, steps.ranges, clocks, strict=True):
        on_one_clock = [[one.earlier(ticks) for one in row] for row, ticks in zip(ranges, ahead, strict=True)]
        ends = {op: one.end for row in on_one_clock for one in row for op in ops_of(one.slot)}
        rows: list[list[Range]] = [[] for _ in on_one_clock]  # each operation from when its inputs had ended
        for rank, one in ((rank, one) for rank, row in enumerate(on_one_clock) for one in row):
            known = [op for op in _inputs(one.slot, steps) if op in ends and op not in ops_of(one.slot)]
            start = min(max([one.start, *(ends[op] for op in known)]), one.end)
            wait = one.wait if any(steps.home[op] != rank for op in known) else None
            rows[rank].append(one._replace(start=start, wait=wait))
        found.append(AlignedStep(name, [sorted(row, key=lambda one: one[1:3]) for row in rows], ahead))
    return Aligned(found, frozenset(chain.from_iterable(kinds for _, kinds in clocks)))


def is_transfer(slot: Slot) -> bool:
    """Return whether a slot is an offload or a load."""
    return isinstance(slot, Op) and KINDS[slot.kind].is_transfer


def transits(found: Aligned, steps: Steps) -> Iterator[Transit]:
    """Yield the messages whose receivers waited from before the end of the sender: from that to the end of waiting."""
    for step in found.steps:
        ends = {op: one.end for row in step.ranges for one in row for op in ops_of(one.slot)}
        for one in chain(*step.ranges):
            if one.wait is None:
                continue
            for op in ops_of(one.slot):
                for before in _inputs(op, steps):
                    if steps.home.get(before, steps.home[op]) != steps.home[op] and one.wait.start < ends[before]:
                        way = min(before.stage, op.stage), before.stage < op.stage
                        yield way, one.wait.end - ends[before]


class RankMessage(NamedTuple):
    """A result that goes from one rank to another, with the range that needs it; times are on their own clocks.

    `pair` are its sender and its receiver, and `kind` is that of the range. `idle` is how long the receiver did nothing
    before, None where the range is its first of the step; `apart` as of `Recorded`.
    """

    step: str
    pair: Pair
    sent: int
    before: Slot
    after: Range
    kind: Kind
    idle: int | None
    apart: bool

    def room(self, least: Mapping[Kind, int]) -> int:
        """Return when it was there at the latest, on the receiver's clock, less when it was sent, on the sender's."""
        after = self.after
        there = after.there if self.apart else max(after.end - least.get(self.kind, 0), after.start)
        return there - self.sent


def messages(steps: Steps, numbers: Sequence[int], *, apart: bool) -> list[RankMessage]:
    """Return the messages of these steps."""
    found = []
    for number in numbers:
        ranges = steps.ranges[number]
        ends = {op: one for row in ranges for one in row for op in ops_of(one.slot)}
        for receiver, row in enumerate(ranges):
            for last, one in zip((None, *row), row, strict=False):
                idle = None if last is None else one.there - last.end
                for op in _inputs(one.slot, steps):
                    pair = steps.home.get(op, receiver), receiver
                    if pair[0] != receiver:
                        sent, kind = (ends[op].end, ends[op].slot), kind_of(one.slot)
                        found.append(RankMessage(steps.names[number], pair, *sent, one, kind, idle, apart))
    return found


def kind_of(slot: Slot) -> Kind:
    """Return what operations have in common that take the same time."""
    if isinstance(slot, PairSlot):
        return "overlap", slot.forward.stage, slot.backward.stage
    return slot.kind, slot.stage, -1


def _inputs(slot: Slot, steps: Steps) -> Iterator[Op]:
    """Yield the operations whose results a slot needs, of those that run."""
    for op in ops_of(slot):
        for need in KINDS[op.kind].needs:
            stage = op.stage + need.stage
            if need.letter in steps.letters and 0 <= stage < steps.stages and not need.slice:
                yield op._replace(stage=stage, kind=need.letter)


def align(sent: Sequence[RankMessage], ranks: Sequence[int], unit: str) -> Clocks:
    """Return the clocks with the least slack of the messages whose latest time is known, and the kinds that waited.

    Of kinds that may always have waited no least length is known: clocks alone tell their waiting. `ranks` are the
    numbers of the ranks. Raises InvalidSchedule with messages that contradict each other where no clocks meet them all.
    """
    slack, bounds = 0, _bounds(sent, {}, 0)  # by which rounded times must be taken wider, usually 0
    apart = any(one.apart for one in sent)
    while (cycle := negative_cycle(len(ranks), bounds)) is not None:
        short = -sum(bounds[pair] for pair in cycle)
        slack += round_up(short, len(cycle)) // len(cycle)
        if slack > ROUNDING:
            tight = _bounds(sent, {}, 0)
            raise _contradiction(sent, tight, negative_cycle(len(ranks), tight) or cycle, ranks, unit)
        bounds = _bounds(sent, {}, slack)
    least, waited = dict[Kind, int](), frozenset[Kind]()
    if not apart:  # ranges hold their waiting: what surely did not wait tells how long its kind takes at least
        least, bounds = _with_lengths(sent, len(ranks), slack)
        waited = frozenset(one.kind for one in sent) - least.keys()
    fine = gcd(*(time for one in sent for time in (one.sent, one.after.there, one.after.end))) or 1
    ahead: Sequence[int] = _least_slack(sent, len(ranks), bounds, least, apart=apart)
    if not apart and sent:  # of the clocks within the bounds those at which a kind takes most nearly equal times
        typical = median_low([one.after.end - one.after.start for one in sent])
        for _ in range(PASSES if any(isinstance(one.after.slot, PairSlot) for one in sent) else 1):
            settled = with_equal_lengths(_directions(sent, ahead), bounds, ahead, typical // 2)
            ahead = _middle(len(ranks), settled)
    return [one // fine * fine for one in ahead], waited


def _bounds(sent: Sequence[RankMessage], least: Mapping[Kind, int], slack: int) -> dict[Pair, int]:
    """Return the bounds that messages put on each pair of clocks, `slack` ticks wider for rounded times."""
    bounds: dict[Pair, int] = {}
    for one in sent:
        most = one.room(least) + slack
        bounds[one.pair] = min(bounds.get(one.pair, most), most)
    return bounds


def _with_lengths(sent: Sequence[RankMessage], count: int, slack: int) -> tuple[dict[Kind, int], dict[Pair, int]]:
    """Return the least length of each kind that is known, and the bounds that follow with them."""
    needed = defaultdict[tuple[str, Slot], list[RankMessage]](list)
    for one in sent:
        needed[one.step, one.after.slot].append(one)
    least: dict[Kind, int] = {}
    most: dict[Kind, int] = {}
    bounds = _bounds(sent, least, slack)
    while True:
        free = tightest(count, bounds, range(count))
        for key, inputs in [*needed.items()]:  # whose results were there before the start, whatever the clocks are
            if all(free.get(one.pair, inf) <= one.after.start - one.sent for one in inputs):
                one = needed.pop(key)[0]
                length = one.after.end - one.after.start
                most[one.kind] = min(most.get(one.kind, length), length)
        if most == least:
            return least, bounds
        bounds = _bounds(sent, most, slack)
        while (cycle := negative_cycle(count, bounds)) is not None:  # one that waited may have taken less than others
            short = -sum(bounds[pair] for pair in cycle)
            tight = [_tightest_message(sent, pair, most) for pair in cycle]
            kinds = {one.kind for one in tight if most.get(one.kind)}
            for kind in kinds:
                most[kind] = max(most[kind] - (round_up(short, len(kinds)) // len(kinds)), 0)
            bounds = _bounds(sent, most, slack)
        if most == least:
            return least, bounds
        least = {**most}


def _tightest_message(sent: Sequence[RankMessage], pair: Pair, least: Mapping[Kind, int]) -> RankMessage:
    return min((one for one in sent if one.pair == pair), key=lambda one: one.room(least))


def _least_slack(
    sent: Sequence[RankMessage], count: int, bounds: dict[Pair, int], least: Mapping[Kind, int], *, apart: bool
) -> list[int]:
    """Return the clocks that leave messages least slack, of those whose latest time is known.

    Bounds leave some room for each two clocks. With messages one way only, the tightest is there just in time. With
    messages both ways the middle is taken where the room is little: then messages take it on their way. So it is where
    messages that were waited for take nearly the same time, or receivers of both recorded that they waited so long.
    Else results of one way were never waited for, and the end is taken at which more messages are just in time: that
    of the least sum of square roots of slack.
    """
    typical = median_low([one.after.end - one.after.start for one in sent] or [0])
    is_recorded = any(one.after.wait is not None and one.after.wait.is_recorded for one in sent)
    known = _idle_before(sent, typical) if apart else [one for one in sent if one.kind in least]
    spare, waits = defaultdict[Pair, list[int]](list), defaultdict[Pair, list[int]](list)
    for one in known:
        wait = one.after.wait
        spare[one.pair].append(one.room(least))
        waits[one.pair].append(wait.end - wait.start if wait is not None and wait.is_recorded else 0)
    for i, j in sorted(spare):
        is_both = (j, i) in spare
        if is_both and j < i:
            continue
        most = tightest(count, bounds, [i])[i, j]
        if not is_both:
            bounds = with_equality(bounds, (i, j), most)
        else:
            behind = tightest(count, bounds, [j])[j, i]
            if (wide := most + behind) * LITTLE <= typical:
                continue
            both = spare[i, j], spare[j, i]
            is_steady = all((median_low(rooms) - min(rooms)) * STEADY <= wide for rooms in both)
            # a receiver that came late to its input waits hardly at all, so what it waited the message took
            are_waited_for = all(
                any(
                    wait * STEADY >= wide >= (room - min(spare[pair])) * STEADY
                    for room, wait in zip(spare[pair], waits[pair], strict=True)
                )
                for pair in ((i, j), (j, i))
            )
            if are_waited_for or (apart and is_steady and (is_recorded or wide <= typical)):
                continue  # the middle is taken
            rooms_of = {end: chain([room - end for room in both[0]], [room + end for room in both[1]])
                        for end in (most, -behind)}  # fmt: skip
            ends = {end: sum(sqrt(max(room, 0)) for room in rooms) for end, rooms in rooms_of.items()}
            bounds = with_equality(bounds, (i, j), min(ends, key=ends.__getitem__))
    return _middle(count, bounds)


def _idle_before(sent: Sequence[RankMessage], typical: int) -> list[RankMessage]:
    """Return the messages that receivers waited for; of ranks that have none, those before which they idled; or all."""
    found, least = list[RankMessage](), typical // LITTLE
    recorded = ((one, one.after.wait) for one in sent if one.after.wait is not None and one.after.wait.is_recorded)
    waited_for = [one for one, wait in recorded if wait.end - wait.start > least]
    for some in (waited_for, [one for one in sent if one.idle is None or one.idle > least], sent):
        told = {frozenset(one.pair) for one in found}
        found += [one for one in some if frozenset(one.pair) not in told]
    return found


def _middle(count: int, bounds: Bounds) -> list[int]:
    """Return clocks in the middle of what is left of the bounds between each and that of the first rank."""
    ahead = tightest(count, bounds, range(count))
    clocks = []
    for rank in range(count):
        ends = [sign * ahead[pair] for sign, pair in ((1, (0, rank)), (-1, (rank, 0))) if pair in ahead]
        clocks.append(sum(ends) // max(len(ends), 1))
    return clocks


def _directions(sent: Sequence[RankMessage], ahead: Sequence[int]) -> dict[Pair, Direction]:
    """Return the arrivals from rank to rank; a pair starts no earlier than its other input is there at these clocks."""
    inputs = defaultdict[tuple[str, Slot], list[RankMessage]](list)
    for one in sent:
        inputs[one.step, one.after.slot].append(one)
    found = defaultdict[Pair, dict[Kind, list[LateArrival]]](dict)
    for one in chain(*inputs.values()):
        others = [other for other in inputs[one.step, one.after.slot] if other.pair[0] != one.pair[0]]
        there = [other.sent + ahead[other.pair[1]] - ahead[other.pair[0]] for other in others]
        start = min(max([one.after.start, *there]), one.after.end)
        found[one.pair].setdefault(one.kind, []).append((one.after.end - start, one.after.end - one.sent))
    steps = len({one.step for one in sent})
    # thinned out evenly where there are more operations than are looked at
    return {
        pair: Direction([kind[:: 1 + (len(kind) - 1) // MOST] for kind in kinds.values()], steps)
        for pair, kinds in found.items()
    }


def _contradiction(
    sent: Sequence[RankMessage], bounds: Bounds, cycle: Sequence[Pair], ranks: Sequence[int], unit: str
) -> InvalidSchedule:
    said = []
    for pair in cycle:
        one, most = _tightest_message(sent, pair, {}), bounds[pair]
        sender, receiver = (ranks[rank] for rank in pair)
        what, there = ("had its input", one.after.there) if one.apart else ("ends", one.after.end)
        ahead = f"at most {_time(most, unit)} ahead of" if most >= 0 else f"at least {_time(-most, unit)} behind"
        said.append(
            f"step {one.step}: {one.before} ends on rank {sender} at {_time(one.sent, unit)} and {one.after.slot}"
            f" {what} on rank {receiver} at {_time(there, unit)},"
            f" so the clock of rank {receiver} is {ahead} that of rank {sender}"
        )
    names = " and ".join(str(ranks[rank]) for rank in sorted({rank for pair in cycle for rank in pair}))
    return InvalidSchedule(
        f"no clocks fit the messages between ranks {names} (a clock that drifts, or files of two runs): "
        + "; but ".join(said),
        said,
    )


def _time(ticks: int, unit: str) -> str:
    return f"{in_units(ticks, PER_UNIT)} {unit}"


MOST = 256  # operations of a kind that are looked at: more change a median little
CELLS = 96  # into which a range is cut at first, and the best of them further
BEST = 3  # cells that are looked into
FINER = 4
Deviation = Callable[[int], float]


class Direction(NamedTuple):
    """The arrivals from one rank at another, by the kinds that need them, of so many steps."""

    kinds: Sequence[Sequence[LateArrival]]
    steps: int

    def deviation(self, shift: int) -> float:
        """Return by how much operations differ from the median of their kind, if arrival is sent + shift."""
        total = 0
        for arrivals in self.kinds:
            lengths = sorted(length if (left := late - shift) > length else max(left, 0) for length, late in arrivals)
            half = len(lengths) // 2
            total += sum(lengths[len(lengths) - half :]) - sum(lengths[:half])
        return total


NONE = Direction((), 0)


def with_equal_lengths(
    directions: Mapping[Pair, Direction], bounds: Bounds, ahead: Sequence[int], room: int
) -> dict[Pair, int]:
    """Return the bounds with what each pair of clocks with messages between them differs by.

    `ahead` are clocks that meet the bounds; a pair keeps them where nothing tells better ones. `room` is the most that
    a message takes. Pairs that lengths tell most of come first, and bound the others.
    """
    pairs = sorted({(min(pair), max(pair)) for pair in directions})
    found: list[tuple[float, Pair]] = []
    for i, j in pairs:
        lowest, highest = _range(len(ahead), bounds, (i, j), ahead)
        there, back = directions.get((i, j), NONE), directions.get((j, i), NONE)
        some = range(lowest, highest + 1, max((highest - lowest) // FINER, 1))
        deviations = [there.deviation(one) + back.deviation(-one) for one in some]
        found.append((min(deviations) - max(deviations), (i, j)))  # what they tell of these two clocks
    settled = dict(bounds)
    for _, (i, j) in sorted(found):
        there, back = directions.get((i, j), NONE), directions.get((j, i), NONE)
        lowest, highest = _range(len(ahead), settled, (i, j), ahead)
        now = min(max(ahead[j] - ahead[i], lowest), highest)
        settled = with_equality(settled, (i, j), difference(there, back, lowest, highest, now, room))
    return settled


def _range(count: int, bounds: Bounds, pair: Pair, ahead: Sequence[int]) -> tuple[int, int]:
    """Return the least and the most that clock j is ahead of clock i; where nothing bounds it, what it is now."""
    i, j = pair
    now = ahead[j] - ahead[i]
    most, behind = tightest(count, bounds, [i]).get((i, j)), tightest(count, bounds, [j]).get((j, i))
    return (now if behind is None else -behind), (now if most is None else most)


def difference(there: Direction, back: Direction, lowest: int, highest: int, now: int, room: int) -> int:
    """Return by how much clock j is ahead of clock i, from `lowest` to `highest`; `now` where all are as good.

    `there` are the arrivals from rank i at rank j, `back` those the other way; `room` is the most latency.
    """
    if lowest >= highest:
        return now
    # of each way the shift (clock and latency) at which lengths are most nearly equal, small rather than large
    most_there = _least(lambda one: there.deviation(one) + there.steps * one / 2, lowest, highest + room, now)
    most_back = _least(lambda one: back.deviation(one) + back.steps * one / 2, -highest, room - lowest, -now)
    if there.kinds and back.kinds and 0 <= most_there + most_back <= 2 * room:
        return min(max((most_there - most_back) // 2, lowest), highest)  # latency is the same both ways
    return _least(lambda one: there.deviation(one) + back.deviation(-one), lowest, highest, now)


def _least(deviation: Deviation, lowest: int, highest: int, now: int) -> int:
    """Return where a function is least, of those nearest to `now`: in the best cells of a grid, further and further."""
    known: dict[int, float] = {}

    def key(place: int) -> tuple[float, int]:
        if place not in known:
            known[place] = deviation(place)
        return known[place], abs(place - now)

    cell = max((highest - lowest) // CELLS, 1)
    places = {*range(lowest, highest + 1, cell), highest, now}
    best = sorted(places, key=key)[:BEST]
    while cell > 1:
        cell = max(cell // FINER, 1)
        steps = [cell * one for one in range(-FINER, FINER + 1)]
        best = [min((at + step for step in steps if lowest <= at + step <= highest), key=key) for at in best]
    return int(min([*best, now], key=key))


NO_CLOCK = -1


def negative_cycle(count: int, bounds: Bounds) -> list[Pair] | None:
    """Return a cycle of bounds that cannot be met together, of two wherever one is; None if all can."""
    for (i, j), most in bounds.items():
        if i < j and (j, i) in bounds and most + bounds[j, i] < 0:
            return [(i, j), (j, i)]
    _, before, last = _relaxed(count, bounds)
    if last == NO_CLOCK:
        return None
    for _ in range(count):
        last = before[last]
    cycle = [(before[last], last)]
    while (at := cycle[-1][0]) != last:
        cycle.append((before[at], at))
    return cycle[::-1]


def _relaxed(count: int, bounds: Bounds) -> tuple[list[int], list[int], int]:
    """Return clocks by Bellman and Ford, which clock set each, and the last to change (NO_CLOCK: bounds are met)."""
    clocks, before, last = [0] * count, [NO_CLOCK] * count, NO_CLOCK
    for _ in range(count + 1):
        last = NO_CLOCK
        for (i, j), most in bounds.items():
            if clocks[i] + most < clocks[j]:
                clocks[j], before[j], last = clocks[i] + most, i, j
        if last == NO_CLOCK:
            break
    return clocks, before, last


def tightest(count: int, bounds: Bounds, sources: Sequence[int]) -> dict[Pair, int]:
    """Return the tightest bound of each pair from these sources that follows; pairs without any are left out.

    The bounds can be met together (`negative_cycle` says so).
    """
    clocks, _, _ = _relaxed(count, bounds)
    arcs: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for (i, j), most in bounds.items():
        arcs[i].append((j, most + clocks[i] - clocks[j]))
    found: dict[Pair, int] = {}
    for source in sources:
        reached: dict[int, int] = {}
        queue = [(0, source)]
        while queue:
            length, node = heappop(queue)
            if node in reached:
                continue
            reached[node] = length
            for target, more in arcs[node]:
                if target not in reached:
                    heappush(queue, (length + more, target))
        found |= {(source, node): length - clocks[source] + clocks[node] for node, length in reached.items()}
    return found


def with_equality(bounds: Bounds, pair: Pair, difference: int) -> dict[Pair, int]:
    """Return the bounds with one more: clock j is ahead of clock i by exactly that."""
    i, j = pair
    return {**bounds, (i, j): min(bounds.get((i, j), difference), difference), (j, i): -difference}
