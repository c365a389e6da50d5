# cython: boundscheck=False, wraparound=False, cdivision=True, infer_types=True
# cython: annotation_typing=False, initializedcheck=False
"""Items in bins, and moves that make the slowest group of bins faster: loops over integers, as those of `kernels.py`.

`Rows` says what a group of bins takes, `Moves` makes moves. Groups have `m` bins each, one behind the other. -1 is no
item and no case.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from typing import Any

Ints = Sequence[int]  # a column that is read
Out = MutableSequence[int]  # and one that is written
CASES = 240  # that are looked at for a move
PAIRS, LONGER = 32, 500  # and in a round at random, in which a group gets longer at first by such a part of the slowest
MOST_GIVEN = 500  # items of the slowest group that may leave it
OVER = 1 << 59  # what a group takes more at least where it is over its budget: more than any group takes
FULL = 1 << 36  # all of a budget
OFTEN = 1 << 22  # rows between two looks at the clock


class Rows:
    """Rows that end when all they wait for have ended, and their own time is over; each comes behind those.

    Row r waits for rows of `before` from `first[r]` to `first[r + 1]`, each for `lag` times the size of bin `sender`
    longer. It lasts `ticks` times the work of bin `owner`, and `more` times that of `partner`: bins of its group.
    """

    def __init__(self, m: int, works: Out, sizes: Out, slopes: Out, lags: Out, columns: Sequence[Any]) -> None:
        self.m, self.works, self.sizes, self.slopes, self.lags = m, works, sizes, slopes, lags
        self.end, self.first, self.before, self.lag, self.sender, *columns = columns
        self.ticks, self.owner, self.more, self.partner = columns

    def time(self, base: int) -> int:
        """Return when the last row ends, by the works and sizes of bins from `base` on."""
        first, before, lag, ticks, owner, end = self.first, self.before, self.lag, self.ticks, self.owner, self.end
        most, wait = 0, 0
        for row in range(len(ticks)):
            ready = 0
            for wait in range(first[row], first[row + 1]):
                late = end[before[wait]]
                if lag[wait]:
                    late += lag[wait] * self.sizes[base + self.sender[wait]]
                if late > ready:
                    ready = late
            ready += ticks[row] * self.works[base + owner[row]]
            if self.more[row]:
                ready += self.more[row] * self.works[base + self.partner[row]]
            end[row] = ready
            if ready > most:
                most = ready
        return most

    def trace(self, base: int) -> int:
        """Return the same, and put the ticks and lags of a longest path into `slopes` and `lags`, by bin."""
        most, row = self.time(base), 0
        for number in range(base, base + self.m):
            self.slopes[number] = self.lags[number] = 0
        while self.end[row] < most:
            row += 1
        while row >= 0:
            self.slopes[base + self.owner[row]] += self.ticks[row]
            self.slopes[base + self.partner[row]] += self.more[row]
            latest, chosen = -1, -1
            for wait in range(self.first[row], self.first[row + 1]):
                late = self.end[self.before[wait]] + self.lag[wait] * self.sizes[base + self.sender[wait]]
                if late > latest:
                    latest, chosen = late, wait
            row = -1
            if chosen >= 0:
                self.lags[base + self.sender[chosen]] += self.lag[chosen]
                row = self.before[chosen]
        return most

    def trace_all(self, found: Out) -> None:
        """Trace each group."""
        for group in range(len(found)):
            found[group] = self.trace(group * self.m)


def pick(share: float, count: int) -> int:
    """Return a share of a number, rounded down."""
    return int(share * count)


class Moves:
    """Items that are in bins by `bin_of`, behind the last of which is one for what is nowhere; no bin gets empty.

    Each item has a work, a size, and `tokens`, for which its bin must have `room`. Sizes times `scale` are what
    `levels` are for, a row for each moment: the sum of products, of a budget whose whole is FULL.
    """

    def __init__(
        self, rows: Rows, scale: float, look: Callable[[], None], zeros: Callable[[int], Any], columns: Sequence[Any]
    ) -> None:
        self.work, self.size, self.tokens, self.levels, self.bin_of, self.room = columns
        self.rows, self.scale, self.look, self.walked = rows, scale, look, 0
        self.m, items, bins = self.rows.m, len(self.bin_of), len(self.room)
        cases = CASES + self.m * self.m
        self.works, self.sizes = self.rows.works, self.rows.sizes
        self.count, self.takes = zeros(bins), zeros((bins - 1) // self.m)
        self.mine, self.theirs, self.left, self.kept = zeros(items), zeros(items), zeros(items), zeros(items)
        self.key, self.one, self.two = zeros(cases), zeros(cases), zeros(cases)
        self.item, self.back, self.source, self.target = zeros(cases), zeros(cases), zeros(cases), zeros(cases)
        self.less_work, self.less_size = zeros(cases), zeros(cases)
        for item in range(items):
            target = self.bin_of[item]
            self.bin_of[item] = bins - 1
            self.put(item, target)
        for group in range(len(self.takes)):
            self.takes[group] = self.taken(group)

    def taken(self, group: int) -> int:
        """Return what a group takes, and OVER and more where it holds more than it may."""
        m, base = self.m, self.m * group
        self.walked += len(self.rows.ticks)
        if self.walked > OFTEN:
            self.walked = 0
            self.look()
        time, most = self.rows.time(base), 0.0
        for row in range(0, len(self.levels), m):
            holds = 0.0
            for number in range(m):
                holds += self.levels[row + number] * pick(self.scale, self.sizes[base + number])
            most = max(most, holds)
        over = most / FULL - 1
        return time if over <= 0 else time + OVER + pick(min(over, 4.0), OVER // 4)

    def slowest(self) -> int:
        """Return the group that takes most, of equals the first."""
        slowest = 0
        for group in range(1, len(self.takes)):
            if self.takes[group] > self.takes[slowest]:
                slowest = group
        return slowest

    def items(self, group: int, found: Out, most: int, spared: int) -> int:
        """List items of a group, at most so many, in even steps; return their number.

        Those that are `spared` leave at least so many others in their bin.
        """
        low, count = group * self.m, 0
        for item in range(len(self.bin_of)):
            number = self.bin_of[item]
            if low <= number < low + self.m and self.count[number] > spared:
                found[count] = item
                count += 1
        for at in range(most if most < count else 0):
            found[at] = found[at * (count - 1) // max(most - 1, 1)]
        return min(count, most)

    def shift(self, give: int, get: int, work: int, size: int) -> None:
        """Let a bin give work and size to another."""
        self.works[give] -= work
        self.sizes[give] -= size
        self.works[get] += work
        self.sizes[get] += size

    def put(self, item: int, target: int) -> None:
        """Move an item to a bin."""
        source, tokens = self.bin_of[item], self.tokens[item]
        self.shift(source, target, self.work[item], self.size[item])
        self.room[source] += tokens
        self.room[target] -= tokens
        self.count[source] -= 1
        self.count[target] += 1
        self.bin_of[item] = target

    def add(self, case: int, item: int, back: int, target: int) -> int:
        """Let a case be that an item goes into a bin, and another `back`, if there is room; return the next case."""
        source = self.bin_of[item]
        work, size, more = self.work[item], self.size[item], self.tokens[item]
        if back >= 0:
            work, size, more = work - self.work[back], size - self.size[back], more - self.tokens[back]
        if source == target or self.room[target] < more or self.room[source] < -more:
            return case
        self.item[case], self.back[case], self.source[case], self.target[case] = item, back, source, target
        self.less_work[case], self.less_size[case] = work, size
        return case + 1

    def offer(self, items: Ints, count: int, group: int) -> int:
        """Let cases be that the first items go into any bin of a group; return how many cases."""
        cases = 0
        for at in range(count):
            for target in range(group * self.m, group * self.m + self.m):
                cases = self.add(cases, items[at], -1, target)
        return cases

    def settle(self, count: int, below: int) -> int:
        """Make the case true in which the slower of two groups takes least, if that is below; return whether one is.

        Of equals it is the case in which both together take least, then the first. What was a longest path of a group
        is no longer than the longest one of a case, so that most cases need no look. Without an item bins exchange all.
        """
        self.look()
        here, there = self.source[0] // self.m, self.target[0] // self.m
        slow = self.rows.trace(here * self.m)
        other = self.rows.trace(there * self.m)
        best, least, total, mine, theirs = -1, below - 1, 0, 0, 0
        for case in range(count):
            give, get, work, size = self.source[case], self.target[case], self.less_work[case], self.less_size[case]
            low = slow - work * self.rows.slopes[give] - size * self.rows.lags[give]
            high = other + work * self.rows.slopes[get] + size * self.rows.lags[get]
            if (low + high - slow if here == there else max(low, high)) > least:
                continue
            self.shift(give, get, work, size)
            one = two = self.taken(here)
            if here != there and one <= least:
                two = self.taken(there)
            self.shift(get, give, work, size)
            longer = max(one, two)
            if longer < least or (longer == least and (best < 0 or one + two < total)):
                best, least, total, mine, theirs = case, longer, one + two, one, two
        if best < 0:
            return 0
        self.takes[here], self.takes[there] = mine, theirs
        first, back, source, target = self.item[best], self.back[best], self.source[best], self.target[best]
        for item in range(len(self.bin_of)):
            number = self.bin_of[item]
            if item == first or (first < 0 and number == source):
                self.put(item, target)
            elif item == back or (first < 0 and number == target):
                self.put(item, source)
        return 1

    def give(self, slow: int, fast: Ints) -> int:
        """Move an item from a slow group to the first of the fast ones where that makes the slower of both faster."""
        helps, nowhere = 0, len(self.room) - 1
        for at in range(self.items(slow, self.mine, MOST_GIVEN, 1)):
            item = self.mine[at]
            number, work, size = self.bin_of[item], self.work[item], self.size[item]
            self.shift(number, nowhere, work, size)
            left = self.taken(slow)
            self.shift(nowhere, number, work, size)
            if left < self.takes[slow]:
                self.mine[helps], self.left[helps] = item, left
                helps += 1
        for turn in range(len(fast) if helps > 0 else 0):
            middle, near = (self.takes[slow] + self.takes[fast[turn]]) // 2, 0
            for at in range(helps):
                near = self.insert(near, max(CASES // self.m, 1), abs(self.left[at] - middle), self.mine[at], -1)
            if self.settle(self.offer(self.one, near, fast[turn]), self.takes[slow]):
                return 1
        return 0

    def rearrange(self, group: int) -> int:
        """Move an item to another bin of its group, or exchange two bins, if that makes it faster."""
        cases = self.offer(self.mine, self.items(group, self.mine, max(CASES // self.m, 1), 1), group)
        for one in range(group * self.m, group * self.m + self.m):
            for two in range(one + 1, group * self.m + self.m):
                self.item[cases], self.back[cases], self.source[cases], self.target[cases] = -1, -1, one, two
                self.less_work[cases] = self.works[one] - self.works[two]
                self.less_size[cases] = self.sizes[one] - self.sizes[two]
                cases += 1
        return self.settle(cases, self.takes[group])

    def trade(self, slow: int, other: int) -> int:
        """Exchange an item of a slow group for a lesser one, also its own, if that makes the slower of both faster."""
        given, got = self.items(slow, self.mine, CASES, 0), self.items(other, self.theirs, CASES, 0)
        whole, near, takes = 0, 0, self.takes[slow]
        for number in range(self.m * slow, self.m * slow + self.m):
            whole += self.works[number]
        share = pick(float(takes - self.takes[other]) / float(2 * max(takes, 1)), whole)
        for one in range(given):
            for two in range(got):
                item, back = self.mine[one], self.theirs[two]
                less = self.work[item] - self.work[back]
                if less > 0 and self.add(0, item, back, self.bin_of[back]):
                    near = self.insert(near, CASES, abs(less - share), item, back)
        for at in range(near):
            self.add(at, self.one[at], self.two[at], self.bin_of[self.two[at]])
        return self.settle(near, takes)

    def insert(self, count: int, most: int, key: int, item: int, back: int) -> int:
        """Keep a pair near if its key is one of the least, at most so many, behind equal ones; return how many are."""
        at = count
        while at > 0 and self.key[at - 1] > key:
            self.key[at], self.one[at], self.two[at] = self.key[at - 1], self.one[at - 1], self.two[at - 1]
            at -= 1
        self.key[at], self.one[at], self.two[at] = key, item, back
        return min(count + 1, most)

    def roam(self, groups: Ints, draws: Sequence[float]) -> None:
        """Exchange items of the slowest group and those of `groups`; then items are where they were at the best time.

        Of each round's pairs, which `draws` choose, the best is taken also where it makes a group a little longer than
        the slowest: by ever less. What bins hold and take is of the last round.
        """
        rounds, items, least = len(groups), len(self.bin_of), self.takes[self.slowest()]
        part = LONGER * rounds
        self.kept[:] = self.bin_of
        for turn in range(rounds):
            slow, left, cases = self.slowest(), rounds - turn, 0
            given, got = self.items(slow, self.mine, items, 0), self.items(groups[turn], self.theirs, items, 0)
            for at in range(2 * PAIRS * turn, 2 * PAIRS * turn + PAIRS):
                back = self.theirs[pick(draws[PAIRS + at], got)]
                cases = self.add(cases, self.mine[pick(draws[at], given)], back, self.bin_of[back])
            self.settle(cases, self.takes[slow] + 1 + least // part * left + least % part * left // part)
            if self.takes[self.slowest()] < least:
                least = self.takes[self.slowest()]
                self.kept[:] = self.bin_of
        self.bin_of[:] = self.kept
