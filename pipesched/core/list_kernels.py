# cython: boundscheck=False, wraparound=False, cdivision=True, infer_types=True
# cython: annotation_typing=False, initializedcheck=False
"""The loops of list scheduling over integers: heaps, memory pools under a limit, and the walk from event to event.

As `kernels.py` this file runs as it stands, or compiled with the types of `list_kernels.pxd`. Its classes hold columns
and a few numbers, so that a run goes on where it stopped to look at the clock. -1 is no task, resource or pool.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

Ints = Sequence[int]  # a column that is read
Out = MutableSequence[int]  # and one that is written


class Heaps:
    """Heaps side by side in one column: heap i stands from `begin[i]` and has `size[i]` items, the least first.

    What is less has a smaller `key`, then a smaller number. `place` is where an item stands in its heap.
    """

    def __init__(self, items: Out, begin: Ints, size: Out, key: Out, place: Out) -> None:
        self.items, self.begin, self.size, self.key, self.place = items, begin, size, key, place

    def push(self, heap: int, item: int) -> None:
        """Add an item to a heap."""
        self.place[item] = self.size[heap]
        self.size[heap] += 1
        self.rise(heap, item)

    def rise(self, heap: int, item: int) -> None:
        """Put an item where it belongs, its place or above."""
        begin, at, own = self.begin[heap], self.place[item], self.key[item]
        while at > 0:
            above = (at - 1) >> 1
            other = self.items[begin + above]
            if self.key[other] < own or (self.key[other] == own and other < item):
                break
            self.items[begin + at] = other
            self.place[other] = at
            at = above
        self.items[begin + at] = item
        self.place[item] = at

    def sink(self, heap: int, item: int) -> None:
        """Put an item where it belongs, its place or below."""
        begin, size, at, own = self.begin[heap], self.size[heap], self.place[item], self.key[item]
        below = 2 * at + 1
        while below < size:
            other = self.items[begin + below]
            if below + 1 < size:
                beside = self.items[begin + below + 1]
                if self.key[beside] < self.key[other] or (self.key[beside] == self.key[other] and beside < other):
                    other = beside
                    below += 1
            if own < self.key[other] or (own == self.key[other] and item < other):
                break
            self.items[begin + at] = other
            self.place[other] = at
            at = below
            below = 2 * at + 1
        self.items[begin + at] = item
        self.place[item] = at

    def remove(self, heap: int, item: int) -> None:
        """Take an item out of its heap."""
        size = self.size[heap] - 1
        self.size[heap] = size
        last = self.items[self.begin[heap] + size]
        if last != item:
            self.place[last] = self.place[item]
            self.rise(heap, last)
            self.sink(heap, last)

    def pop(self, heap: int) -> int:
        """Take the least item out of a heap, and return it."""
        item = self.items[self.begin[heap]]
        self.remove(heap, item)
        return item


def sort_by_key(first: Ints, after: Ints, waiting: Out, order: Out, ready: Heaps) -> int:
    """Fill `order` with the tasks, each after all that it waits for, of those the least in the heap of `ready` first.

    `after` are the tasks that wait for each, `waiting` counts what each waits for itself.
    """
    count = 0
    while ready.size[0] > 0:
        task = ready.pop(0)
        order[count] = task
        count += 1
        for arrow in range(first[task], first[task + 1]):
            other = after[arrow]
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.push(0, other)
    return count


class MemoryPools:
    """Memory pools under a limit while a schedule grows: they say which tasks may start now.

    A task fits when what it asks for is free. With `jobs` it fits only if afterwards the jobs that have begun can still
    finish, one by one: see `PoolLimits.safe`. Row job x pools + pool of `first` and `left` has the tasks of both.
    """

    def __init__(
        self, take: Ints, give: Ints, ask: Ints, pool: Ints, capacity: Ints, used: Out, owner: Ints, first: Ints,
        left: Ints, gone: Out, claim: Out, hold: Out, due: Out, unfinished: Out, begun: Out, has_begun: Out,
    ) -> None:  # fmt: skip
        self.take, self.give, self.ask, self.pool, self.capacity, self.used = take, give, ask, pool, capacity, used
        self.owner, self.first, self.left, self.gone = owner, first, left, gone
        self.claim, self.hold, self.due = claim, hold, due
        self.unfinished, self.begun, self.has_begun = unfinished, begun, has_begun
        self.pools, self.jobs = len(capacity), len(unfinished)
        self.begun_count = self.next_job = 0
        for row in range(len(claim)):
            claim[row] = self.highest(row, 0, -1)

    def leader(self) -> int:
        """Return the job that can always go on: the first that has begun, else the first that has not finished."""
        return self.begun[0] if self.begun_count > 0 else self.next_job

    def fits(self, task: int) -> int:
        """Return whether a task can start now."""
        ask, pool = self.ask[task], self.pool[task]
        if ask == 0:
            return 1
        if self.jobs == 0:
            return self.used[pool] + ask <= self.capacity[pool]
        if self.has_begun[self.owner[task]]:
            return self.is_safe(pool, task)
        for other in range(self.pools):  # it makes a claim on every pool now
            if not self.is_safe(other, task):
                return 0
        return 1

    def is_safe(self, pool: int, task: int) -> int:
        """Return whether the jobs that have begun can finish one by one in a pool after `task` has started."""
        owner, at = self.owner[task], 0
        take = self.take[task] if self.pool[task] == pool else 0
        free = self.capacity[pool] - self.used[pool] - take
        if free < 0:
            return 0
        waits = not self.has_begun[owner]
        while at < self.begun_count or waits:
            if waits and (at == self.begun_count or self.begun[at] > owner):
                job = owner
                waits = False
            else:
                job = self.begun[at]
                at += 1
            row = job * self.pools + pool
            claim, held = self.claim[row], self.hold[row]
            if job == owner and self.pool[task] == pool:
                claim = self.highest(row, -self.due[row] - self.give[task], task)
                held += take
            if claim > free:
                return 0
            free += held
        return 1

    def highest(self, row: int, level: int, but: int) -> int:
        """Return the highest level, at least 0, as what is left of a row runs one by one from a level on."""
        most = 0
        for at in range(self.first[row], self.first[row + 1]):
            task = self.left[at]
            if task != but and not self.gone[task]:
                level += self.take[task]
                most = max(most, level)
                level -= self.give[task]
        return most

    def start(self, task: int) -> None:
        """Take the memory of a task."""
        take, give, pool = self.take[task], self.give[task], self.pool[task]
        self.used[pool] += take
        if self.jobs == 0:
            return
        owner = self.owner[task]
        row = owner * self.pools + pool
        self.hold[row] += take
        if take != 0 or give != 0:
            self.gone[task] = 1
            self.due[row] += give
            self.claim[row] = self.highest(row, -self.due[row], -1)
        if take != 0 and not self.has_begun[owner]:
            self.has_begun[owner] = 1
            at = self.begun_count
            while at > 0 and self.begun[at - 1] > owner:
                self.begun[at] = self.begun[at - 1]
                at -= 1
            self.begun[at] = owner
            self.begun_count += 1

    def end(self, task: int) -> int:
        """Give back the memory of a task; return the pool that has more free now, or NONE."""
        give, pool = self.give[task], self.pool[task]
        self.used[pool] -= give
        if self.jobs > 0:
            self.leave(self.owner[task], self.owner[task] * self.pools + pool, give)
        return pool if give != 0 else -1

    def leave(self, owner: int, row: int, give: int) -> None:
        """Take note that a task of a job has ended."""
        if give != 0:
            self.hold[row] -= give
            self.due[row] -= give
            self.claim[row] = self.highest(row, -self.due[row], -1)
        self.unfinished[owner] -= 1
        if self.unfinished[owner] != 0:
            return
        if self.has_begun[owner]:
            self.has_begun[owner] = 0
            at = 0
            while self.begun[at] != owner:
                at += 1
            self.begun_count -= 1
            while at < self.begun_count:
                self.begun[at] = self.begun[at + 1]
                at += 1
        while self.next_job < self.jobs - 1 and self.unfinished[self.next_job] == 0:
            self.next_job += 1


class ListRun:
    """List scheduling: go from event to event; of the tasks that are ready and fit, start the one of least key.

    Ready tasks stand in a heap by what they ask for on their resource: if the first does not fit, none does. `best` is
    the least task of each resource that may start, `opened` are the resources with one; those `changed` are looked at
    anew. `tie` is what the key still gets as a task becomes ready: see `Tie`.
    """

    def __init__(
        self, pools: MemoryPools, ends: Heaps, arrivals: Heaps, ready: Heaps, units: Heaps, duration: Ints,
        resource: Ints, group: Ints, first: Ints, after: Ints, lag: Ints, waiting: Out, before_first: Ints,
        before: Ints, tie: int, drawn: Ints, users_first: Ints, users: Ints, groups_first: Ints, groups: Out,
        groups_count: Out, group_place: Out, start: Out, unit: Out, picked: Out, changed: Out, is_changed: Out,
        best: Out, opened: Out, open_place: Out, ready_first: Out, ready_next: Out, ready_last: Out,
    ) -> None:  # fmt: skip
        self.pools, self.ends, self.arrivals, self.ready, self.units = pools, ends, arrivals, ready, units
        self.duration, self.resource, self.group = duration, resource, group
        self.first, self.after, self.lag, self.waiting = first, after, lag, waiting
        self.before_first, self.before, self.tie, self.drawn = before_first, before, tie, drawn
        self.users_first, self.users = users_first, users
        self.groups_first, self.groups, self.groups_count = groups_first, groups, groups_count
        self.group_place = group_place
        self.start, self.unit, self.picked = start, unit, picked
        self.changed, self.is_changed, self.best = changed, is_changed, best
        self.opened, self.open_place = opened, open_place
        self.ready_first, self.ready_next, self.ready_last = ready_first, ready_next, ready_last
        self.now = self.moment = self.offered = self.picks = self.changes = self.opens = self.work = 0

    def run(self, most: int) -> int:
        """Go on for about `most` steps; return 0 when nothing is left to do."""
        self.work = most
        while self.work > 0:
            task = self.least()
            self.work -= 1
            if task >= 0:
                self.launch(task)
            elif self.ends.size[0] > 0 or self.arrivals.size[0] > 0:
                self.advance()
            else:
                return 0
            self.settle()  # a task of no length has ended already
        return 1

    def advance(self) -> None:
        """Go to the next event."""
        self.moment += 1
        if self.ends.size[0] > 0:
            self.now = self.ends.key[self.ends.items[0]]
        if self.arrivals.size[0] > 0:
            comes = self.arrivals.key[self.arrivals.items[0]]
            if self.ends.size[0] == 0 or comes < self.now:
                self.now = comes

    def settle(self) -> None:
        """Handle everything that ends or becomes ready by now."""
        going = True
        while going:
            going = False
            while self.ends.size[0] > 0 and self.ends.key[self.ends.items[0]] <= self.now:
                self.finish(self.ends.pop(0))
                going = True
            while self.arrivals.size[0] > 0 and self.arrivals.key[self.arrivals.items[0]] <= self.now:
                task = self.arrivals.pop(0)
                if self.resource[task] < 0:
                    self.occupy(task)
                else:
                    self.offer(task)
                going = True

    def finish(self, task: int) -> None:
        """End a task: its unit and memory are free, and who waits for it may be ready."""
        resource = self.resource[task]
        if resource >= 0:
            self.units.push(resource, self.unit[task])
            self.mark(resource)
        freed = self.pools.end(task)
        if self.pools.jobs > 0:
            self.mark_all()  # the leader may be another job now
        elif freed >= 0:
            for at in range(self.users_first[freed], self.users_first[freed + 1]):
                self.mark(self.users[at])
        for at in range(self.first[task], self.first[task + 1]):
            other = self.after[at]
            comes = self.now + self.lag[at]
            if self.arrivals.key[other] < comes:
                self.arrivals.key[other] = comes
            self.waiting[other] -= 1
            if self.waiting[other] == 0:
                self.arrivals.push(0, other)

    def mark(self, resource: int) -> None:
        """Let a resource be looked at anew."""
        if not self.is_changed[resource]:
            self.is_changed[resource] = 1
            self.changed[self.changes] = resource
            self.changes += 1

    def mark_all(self) -> None:
        """Let every resource be looked at anew."""
        for resource in range(len(self.is_changed)):
            self.mark(resource)

    def offer(self, task: int) -> None:
        """Put a task among the ready ones, with its key as of now."""
        resource, group = self.resource[task], self.group[task]
        if self.tie == 1:
            self.ready.key[task] += self.moment
        elif self.tie == 2:
            self.ready.key[task] += self.drawn[self.offered]
        self.offered += 1
        if self.ready.size[group] == 0:
            at = self.groups_count[resource]
            self.groups_count[resource] = at + 1
            self.groups[self.groups_first[resource] + at] = group
            self.group_place[group] = at
        self.ready.push(group, task)
        self.mark(resource)
        if self.pools.jobs > 0:
            self.join(task, self.pools.owner[task])

    def join(self, task: int, job: int) -> None:
        """Put a task among the ready ones of its job."""
        other = self.ready_first[job]
        self.ready_next[task] = other
        self.ready_last[task] = -1
        if other >= 0:
            self.ready_last[other] = task
        self.ready_first[job] = task

    def part(self, task: int, job: int) -> None:
        """Take a task from the ready ones of its job."""
        after, before = self.ready_next[task], self.ready_last[task]
        if after >= 0:
            self.ready_last[after] = before
        if before >= 0:
            self.ready_next[before] = after
        else:
            self.ready_first[job] = after

    def least(self) -> int:
        """Return the least task that may start now, or NONE."""
        is_safe = self.pools.jobs > 0
        if self.changes > 0:
            while self.changes > 0:
                self.changes -= 1
                resource = self.changed[self.changes]
                self.is_changed[resource] = 0
                self.look_at(resource)
            task = self.ready_first[self.pools.leader()] if is_safe else -1
            while task >= 0:
                resource = self.resource[task]
                best = self.best[resource]
                if self.units.size[resource] > 0 and self.is_less(task, best) and self.pools.fits(task):
                    self.set_best(resource, task)
                task = self.ready_next[task]
        while True:
            found = -1
            for at in range(self.opens):
                task = self.best[self.opened[at]]
                if self.is_less(task, found):
                    found = task
            if found < 0 or is_safe or self.pools.fits(found):
                return found
            self.look_at(self.resource[found])  # memory was taken since

    def is_less(self, task: int, other: int) -> int:
        """Return whether a task goes before another, which may be NONE."""
        if other < 0:
            return 1
        key, than = self.ready.key[task], self.ready.key[other]
        return key < than or (key == than and task < other)

    def look_at(self, resource: int) -> None:
        """Find the least task of a resource that may start now."""
        found = -1
        if self.units.size[resource] > 0:
            begin, count = self.groups_first[resource], self.groups_count[resource]
            self.work -= count * (1 + self.pools.begun_count * self.pools.pools) >> 3
            for at in range(begin, begin + count):
                task = self.ready.items[self.ready.begin[self.groups[at]]]
                if self.is_less(task, found) and self.pools.fits(task):
                    found = task
        self.set_best(resource, found)

    def set_best(self, resource: int, task: int) -> None:
        """Note the least task of a resource, or NONE."""
        if task >= 0 > self.best[resource]:
            self.opened[self.opens] = resource
            self.open_place[resource] = self.opens
            self.opens += 1
        elif task < 0 <= self.best[resource]:
            self.opens -= 1
            other = self.opened[self.opens]
            self.opened[self.open_place[resource]] = other
            self.open_place[other] = self.open_place[resource]
        self.best[resource] = task

    def launch(self, task: int) -> None:
        """Start a ready task on the first free unit of its resource."""
        resource, group = self.resource[task], self.group[task]
        self.unit[task] = self.units.pop(resource)
        self.ready.remove(group, task)
        if self.ready.size[group] == 0:
            self.groups_count[resource] -= 1
            begin, at = self.groups_first[resource], self.group_place[group]
            other = self.groups[begin + self.groups_count[resource]]
            self.groups[begin + at] = other
            self.group_place[other] = at
        self.mark(resource)
        if self.pools.jobs > 0:
            self.part(task, self.pools.owner[task])
            self.mark_all()  # the leader may be another job now
        self.occupy(task)

    def occupy(self, task: int) -> None:
        """Begin a task now."""
        self.start[task] = self.now
        self.picked[self.picks] = task
        self.picks += 1
        self.pools.start(task)
        self.ends.key[task] = self.now + self.duration[task]
        self.ends.push(0, task)
        if self.tie == 3:
            for at in range(self.first[task], self.first[task + 1]):
                self.pair(self.after[at])

    def pair(self, consumer: int) -> None:
        """Where all operands of a consumer but one have been issued, that one goes before others of its priority."""
        last = -1
        for at in range(self.before_first[consumer], self.before_first[consumer + 1]):
            operand = self.before[at]
            if self.start[operand] < 0 and operand != last:
                if last >= 0:
                    return
                last = operand
        if last < 0 or self.resource[last] < 0 or self.ready.key[last] & 1 == 0:
            return
        self.ready.key[last] -= 1
        group, place = self.group[last], self.ready.place[last]
        if place < self.ready.size[group] and self.ready.items[self.ready.begin[group] + place] == last:
            self.ready.rise(group, last)  # it is ready already
            self.mark(self.resource[last])


def jackson(head: Ints, work: Out, released: Heaps) -> int:
    """Return the length of Jackson's preemptive schedule of jobs by their heads: the longest tail has the least key."""
    count = len(head)
    at = now = best = 0
    while at < count or released.size[0] > 0:
        if released.size[0] == 0:
            now = max(now, head[at])
        while at < count and head[at] <= now:
            released.push(0, at)
            at += 1
        job = released.items[0]
        until = now + work[job]
        if at < count and head[at] < until:
            work[job] = until - head[at]
            until = head[at]
        else:
            released.pop(0)
            best = max(best, until - released.key[job])
        now = until
    return best


def fetches(
    begins: Ints, stops: Ints, stage: Ints, other: Ints, most: int, coming: Out, comes: Out, near: Out, found: Out
) -> None:
    """Count in `found`, for each place, the stages that the next ones are made of, and those before it are not, and so.

    From each place of a machine on, its next `most` distinct stages are whole. A place uses `stage` (NONE: none) and
    `other`, which come together. `coming` and `comes` are of the size of all stages, `near` comes as NONE.
    """
    for machine in range(len(stops)):
        size, last, held = 0, -1, 0
        for place in range(stops[machine] - 1, begins[machine] - 1, -1):
            if stage[place] < 0:
                continue
            if last >= 0 and other[place] == stage[place] and coming[0] == stage[place] and held <= most:
                for at in range(held):
                    near[coming[at]] = place
                comes[0] = place
                last = place
                continue
            for turn in range(2):
                one = other[place] if turn == 0 else stage[place]
                if turn == 0 and one == stage[place]:
                    continue
                at = 0
                while at < size and coming[at] != one:
                    at += 1
                if at == size:
                    size += 1
                while at > 0:
                    coming[at] = coming[at - 1]
                    comes[at] = comes[at - 1]
                    at -= 1
                coming[0] = one
                comes[0] = place
            before, common = held, 0
            held = 0
            while held < size and (held < most or comes[held] == comes[held - 1]):
                if last >= 0 and near[coming[held]] == last:
                    common += 1
                near[coming[held]] = place
                held += 1
            if last >= 0:
                found[last] = before + held - 2 * common
            last = place
        if last >= 0:
            found[last] = held


def take_turns(
    order: Ints, stops: Ints, idle: Ints, source: Ints, target: Ints, sender: Ints, receiver: Ints, waiting: Out,
    made: Out, beyond: Out, place: Out, last: Out, turns: Out, free: Out, run: Out, found: Out, sends: Out, after: Out,
    behind: Out,
) -> int:  # fmt: skip
    """Put both ends of each message where the machines are when it is made, as they run in turns; return what is left.

    Each turn of a machine is one task of its part of `order`, if it is `waiting` for no message, or one of the `idle`
    turns before that. The `source` of a message (-1: there is no such message) makes it for its `target`. What has no
    sender and no receiver (-1) is waited for alone. `made` and `beyond` come as -1: the messages of each task. Machine
    m stands at `place[m]`, behind the task `last[m]` and so many `turns[m]`, and so does each of its ends, from
    `free[m]` on. What has `run` is listed, messages by their numbers behind those of all tasks.
    """
    machines, remaining, done, tasks = len(stops), len(order), 0, len(waiting)
    for message in range(len(source) - 1, -1, -1):
        task = source[message]
        if task >= 0:
            beyond[message] = made[task]
            made[task] = message
            waiting[target[message]] += 1
    moved = True
    while remaining > 0 and moved:
        moved = False
        for machine in range(machines):
            at = place[machine]
            if at == stops[machine]:
                continue
            if turns[machine] < idle[at]:
                turns[machine] += 1
                moved = True
                continue
            task = order[at]
            if waiting[task] > 0:
                continue
            moved = True
            remaining -= 1
            place[machine] = at + 1
            last[machine] = task
            turns[machine] = 0
            run[done] = task
            done += 1
            message = made[task]
            while message >= 0:
                waiting[target[message]] -= 1
                if sender[message] >= 0:
                    run[done] = tasks + message
                    done += 1
                for end in range(2):
                    here = sender[message] if end == 0 else receiver[message]
                    if here < 0:
                        continue
                    entry = free[here]
                    free[here] = entry + 1
                    found[entry] = tasks + message
                    sends[entry] = 1 - end
                    after[entry] = last[here]
                    if turns[here] > 0:  # zeros that nobody writes take no memory
                        behind[entry] = turns[here]
                message = beyond[message]
    return remaining


def run_in_turn(
    order: Ints, duration: Ints, machine: Ints, target: Ints, length: Ints, one: Ints, two: Ints, beyond: int,
    before: Ints, after: Ints, lag: Ints, clock: Out, ready: Out, start: Out, end: Out,
) -> bool:  # fmt: skip
    """Time tasks in this order, each as early as its machine and the messages for it allow.

    Those behind all with a duration are messages, each behind the task that makes it: it waits for that and both its
    machines, so many `beyond` those of tasks, and its `target` for it. Return whether each task `after` another one
    starts later, at least the lag after its end; at one time, tasks might wait for each other in a circle.
    """
    tasks, ended = len(duration), 0
    for at in range(len(order)):
        task = order[at]
        if task < tasks:
            here = machine[task]
            now = max(clock[here], ready[task])
            start[task] = now
            now += duration[task]
            ended = now
        else:
            message = task - tasks
            here, there, other = beyond + one[message], beyond + two[message], target[message]
            now = max(clock[here], clock[there], ended)
            start[task] = now
            now += length[message]
            clock[there] = now
            ready[other] = max(ready[other], now)
        clock[here] = now
        end[task] = now
    for at in range(len(before)):
        begun, begins = start[before[at]], start[after[at]]
        if begun < 0 or begun >= begins or end[before[at]] + lag[at] > begins:
            return False
    return True


def insert(
    order: Ints, since: int, until: int, first: Ints, before: Ints, lag: Ints, duration: Ints, take: Ints, give: Ints,
    machine: Ints, capacity: Ints, least: Ints, base: Ints, gaps: Out, gap_start: Out, gap_end: Out, changes: Out,
    change_time: Out, change_size: Out, level: Out, start: Out, end: Out, tie: Out,
) -> int:  # fmt: skip
    """Put the tasks from `since` to `until` of `order` into the first gap of their machine; return one that never fits.

    The gaps of machine m stand from `base[m]` on, `gaps[m]` of them, the last one without end; shorter ones than
    `least[m]` are left out. Its changes of memory stand from `2 * base[m]` on; a capacity below 0 is none. By `start`,
    then by `tie`, tasks stand in the order of their machine. NONE if all fit.
    """
    for at in range(since, until):
        task = order[at]
        here, length, amount = machine[task], duration[task], take[task]
        zone, stop, limit = base[here], base[here] + gaps[here], capacity[here]
        ready = 0
        for wait in range(first[task], first[task + 1]):
            earliest = end[before[wait]] + lag[wait]
            if earliest > ready:
                ready = earliest
        is_limited = amount > 0 and limit >= 0
        while True:
            needed = ready + length
            low, high, step = zone, stop - 1, 1
            while high - step >= zone:  # what is ready late, as most tasks are, is found near the end
                if gap_end[high - step] < needed:
                    low = high - step + 1
                    break
                high -= step
                step += step
            while low < high:
                middle = (low + high) // 2
                if gap_end[middle] < needed:
                    low = middle + 1
                else:
                    high = middle
            begin = gap_start[low]
            is_moved = begin > ready
            if is_moved:
                while gap_end[low] - begin < length:
                    low += 1
                    begin = gap_start[low]
            else:
                begin = ready
            if not is_limited:
                break
            is_limited = False
            # the first time after which so much more always fits; before the gap it is of no interest
            since_when = begin if length else ready
            held, later = level[here] + amount, -1
            place = 2 * zone + changes[here] - 1
            while held <= limit and place >= 2 * zone and change_time[place] > since_when:
                held -= change_size[place]
                later = change_time[place]
                place -= 1
            if held <= limit:
                break
            if later < 0 or place < 2 * zone:
                return task
            ready = later
        finish = begin + length
        start[task] = begin
        end[task] = finish
        tie[task] = len(order) if length else (-1 - at if is_moved else at)
        lower, upper = gap_start[low], gap_end[low]
        if length or lower < begin < upper:
            if begin - lower < least[here]:
                if upper - finish < least[here]:
                    for place in range(low, stop - 1):
                        gap_start[place] = gap_start[place + 1]
                        gap_end[place] = gap_end[place + 1]
                    gaps[here] -= 1
                else:
                    gap_start[low] = finish
            else:
                gap_end[low] = begin
                if upper - finish >= least[here]:
                    for place in range(stop, low + 1, -1):
                        gap_start[place] = gap_start[place - 1]
                        gap_end[place] = gap_end[place - 1]
                    gap_start[low + 1] = finish
                    gap_end[low + 1] = upper
                    gaps[here] += 1
        if limit < 0:
            continue
        for side in range(2):
            size = -give[task] if side else amount
            if size:
                when = finish if side else begin
                place = 2 * zone + changes[here]
                while place > 2 * zone and (
                    change_time[place - 1] > when or (change_time[place - 1] == when and change_size[place - 1] > size)
                ):
                    change_time[place] = change_time[place - 1]
                    change_size[place] = change_size[place - 1]
                    place -= 1
                change_time[place] = when
                change_size[place] = size
                changes[here] += 1
                level[here] += size
    return -1
