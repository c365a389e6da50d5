# cython: boundscheck=False, wraparound=False, cdivision=True, infer_types=True, annotation_typing=False
"""The loops over operations: flat, over integers, without objects.

This file runs as it stands, with lists for columns; where a C compiler is at the install, it is compiled with the types
of `kernels.pxd`, and takes arrays. Nothing here checks its arguments: who calls has numbers in range. `NONE` is no
task. Rows of waits are compressed: those of task i stand from `first[i]` to `first[i + 1]`.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Any

NONE = -1


def compress(
    keys: Sequence[int], values: Sequence[int], lags: Sequence[int], first: MutableSequence[int],
    found: MutableSequence[int], found_lags: MutableSequence[int],
) -> None:  # fmt: skip
    """Sort pairs of key and value by key, equal keys in their order: `first[key]` is where those of a key begin.

    `first` comes as zeros, one more than there are keys.
    """
    count, size = len(keys), len(first) - 1
    for at in range(count):
        first[keys[at] + 1] += 1
    for key in range(size):
        first[key + 1] += first[key]
    for at in range(count):
        key = keys[at]
        place = first[key]
        found[place] = values[at]
        found_lags[place] = lags[at]
        first[key] = place + 1
    for key in range(size, 0, -1):
        first[key] = first[key - 1]
    if size >= 0:
        first[0] = 0


def replay(
    order: Sequence[int], stops: Sequence[int], first: Sequence[int], before: Sequence[int], lag: Sequence[int],
    duration: Sequence[int], start: MutableSequence[int], end: MutableSequence[int], clock: MutableSequence[int],
    place: MutableSequence[int], sleeper: MutableSequence[int], beyond: MutableSequence[int],
    awake: MutableSequence[int],
) -> int:  # fmt: skip
    """Time each machine's part of `order`, as early as orders and waits allow; return how many tasks have run.

    Machine m runs from `place[m]` to `stops[m]`, from time `clock[m]` on. `end` is below 0 for tasks that have not
    ended. `sleeper` (by task) and `beyond` (by machine) come as NONE: who sleeps until a task ends, and who else.
    """
    machines, done = len(stops), 0
    waking = 0
    for number in range(machines):
        awake[waking] = machines - 1 - number
        waking += 1
    while waking > 0:
        waking -= 1
        machine = awake[waking]
        at, stop, now = place[machine], stops[machine], clock[machine]
        asleep = False
        while at < stop:
            task = order[at]
            for wait in range(first[task], first[task + 1]):
                other = before[wait]
                ended = end[other]
                if ended < 0:
                    beyond[machine] = sleeper[other]
                    sleeper[other] = machine
                    asleep = True
                    break
                ready = ended + lag[wait]
                now = max(now, ready)
            if asleep:
                break
            start[task] = now
            now += duration[task]
            end[task] = now
            done += 1
            at += 1
            other_machine = sleeper[task]
            while other_machine >= 0:
                awake[waking] = other_machine
                waking += 1
                other_machine = beyond[other_machine]
            sleeper[task] = -1
        place[machine] = at
        clock[machine] = now
    return done


def critical(
    order: Sequence[int], begins: Sequence[int], machine: Sequence[int], position: Sequence[int], first: Sequence[int],
    before: Sequence[int], lag: Sequence[int], start: Sequence[int], end: Sequence[int], found: MutableSequence[int],
    left: MutableSequence[int], count: int,
) -> None:  # fmt: skip
    """Mark in `found` the tasks that cannot end later without a later end of all; `left` holds the `count` last ones.

    `order[begins[m] + position[task]]` is a task of machine m.
    """
    while count > 0:
        count -= 1
        task = left[count]
        if found[task]:
            continue
        found[task] = 1
        began = start[task]
        for wait in range(first[task], first[task + 1]):
            other = before[wait]
            if end[other] + lag[wait] == began and not found[other]:
                left[count] = other
                count += 1
        if position[task] > 0:
            other = order[begins[machine[task]] + position[task] - 1]
            if end[other] == began and not found[other]:
                left[count] = other
                count += 1


def insert(
    order: Sequence[int], since: int, until: int, first: Sequence[int], before: Sequence[int], lag: Sequence[int],
    duration: Sequence[int], take: Sequence[int], give: Sequence[int], machine: Sequence[int], capacity: Sequence[int],
    base: Sequence[int], count: MutableSequence[int], run_start: MutableSequence[int], run_end: MutableSequence[int],
    run_task: MutableSequence[int], changes: MutableSequence[int], change_time: MutableSequence[int],
    change_size: MutableSequence[int], level: MutableSequence[int], start: MutableSequence[int],
    end: MutableSequence[int],
) -> int:  # fmt: skip
    """Put the tasks from `since` to `until` of `order` into the first gap of their machine; return one that never fits.

    The runs of machine m stand from `base[m]` on, `count[m]` of them, its changes of memory from `2 * base[m]` on.
    NONE if all fit.
    """
    for at in range(since, until):
        task = order[at]
        here, length, amount = machine[task], duration[task], take[task]
        ready = 0
        for wait in range(first[task], first[task + 1]):
            ready = max(ready, end[before[wait]] + lag[wait])
        zone = 2 * base[here]
        if amount:  # the first time from `ready` on after which so much more always fits
            held, fits, since_when = level[here], -1, -1
            place = zone + changes[here] - 1
            while True:
                if held + amount > capacity[here]:
                    fits = since_when
                    break
                if place < zone or change_time[place] <= ready:
                    fits = ready
                    break
                held -= change_size[place]
                since_when = change_time[place]
                place -= 1
            if fits < 0:
                return task
            ready = fits
        low, stop = base[here], base[here] + count[here]
        high = stop
        while low < high:  # behind the runs that start before, and those of no length that start now
            middle = (low + high) // 2
            if run_start[middle] < ready or (run_start[middle] == ready and run_end[middle] == ready):
                low = middle + 1
            else:
                high = middle
        if low > base[here] and run_end[low - 1] > ready:
            ready = run_end[low - 1]
        while low < stop and run_start[low] < ready + length:
            ready = max(ready, run_end[low])
            low += 1
        for place in range(stop, low, -1):
            run_start[place] = run_start[place - 1]
            run_end[place] = run_end[place - 1]
            run_task[place] = run_task[place - 1]
        run_start[low], run_end[low], run_task[low] = ready, ready + length, task
        count[here] += 1
        start[task], end[task] = ready, ready + length
        for side in range(2):
            size = -give[task] if side else amount
            if size:
                when = ready + length if side else ready
                place = zone + changes[here]
                while place > zone and (
                    change_time[place - 1] > when or (change_time[place - 1] == when and change_size[place - 1] > size)
                ):
                    change_time[place] = change_time[place - 1]
                    change_size[place] = change_size[place - 1]
                    place -= 1
                change_time[place], change_size[place] = when, size
                changes[here] += 1
                level[here] += size
    return -1


def push(heap: MutableSequence[int], base: int, size: int, value: int) -> None:
    """Add a value to a heap of `size` values that stands from `base` on, least first."""
    place = size
    while place > 0:
        above = (place - 1) // 2
        if heap[base + above] <= value:
            break
        heap[base + place] = heap[base + above]
        place = above
    heap[base + place] = value


def pop(heap: MutableSequence[int], base: int, size: int) -> int:
    """Take the least value out of a heap of `size` values that stands from `base` on, and return it."""
    least, last, place = heap[base], heap[base + size - 1], 0
    size -= 1
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and heap[base + below + 1] < heap[base + below]:
            below += 1
        if heap[base + below] >= last:
            break
        heap[base + place] = heap[base + below]
        place = below
    heap[base + place] = last
    return least


def push_event(times: MutableSequence[int], codes: MutableSequence[int], size: int, time: int, code: int) -> None:
    """Add an event to a heap of `size` events, the least (time, code) first."""
    place = size
    while place > 0:
        above = (place - 1) // 2
        if times[above] < time or (times[above] == time and codes[above] <= code):
            break
        times[place], codes[place] = times[above], codes[above]
        place = above
    times[place], codes[place] = time, code


def pop_event(times: MutableSequence[int], codes: MutableSequence[int], size: int) -> None:
    """Take the first event out of a heap of `size` events."""
    size -= 1
    time, code, place = times[size], codes[size], 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        other = below + 1
        if other < size and (
            times[other] < times[below] or (times[other] == times[below] and codes[other] < codes[below])
        ):
            below = other
        if times[below] > time or (times[below] == time and codes[below] >= code):
            break
        times[place], codes[place] = times[below], codes[below]
        place = below
    times[place], codes[place] = time, code


def dispatch(
    steps: int, ahead: int, reach: int, weight_first: int, size: int, forward_count: int, duration: Sequence[int],
    take: Sequence[int], give: Sequence[int], machine: Sequence[int], grace: Sequence[int], first: Sequence[int],
    after: Sequence[int], lag: Sequence[int], rank: Sequence[int], by_rank: Sequence[int], is_weight: Sequence[int],
    forwards: Sequence[int], forward_stop: Sequence[int], base: Sequence[int], coming_base: Sequence[int],
    waits: MutableSequence[int], started: MutableSequence[int], next_forward: MutableSequence[int],
    capacity: MutableSequence[int], busy: MutableSequence[int], inputs: MutableSequence[int],
    input_count: MutableSequence[int], weights: MutableSequence[int], weight_count: MutableSequence[int],
    coming: MutableSequence[int], coming_count: MutableSequence[int], order: MutableSequence[int],
    order_count: MutableSequence[int], event_times: MutableSequence[int], event_codes: MutableSequence[int],
    events: int,
) -> int:  # fmt: skip
    """Go through at most `steps` events of a dispatch; return how many are left.

    An event is (time, what): 0 an end, 1 an arrival, 2 a choice, then the device, then the task. Ready operations are
    kept by `rank`, their place in the block, forwards in `forwards` in that order.
    """
    devices = len(base)
    while events > 0 and steps > 0:
        steps -= 1
        now, code = event_times[0], event_codes[0]
        pop_event(event_times, event_codes, events)
        events -= 1
        event, rest = code // (devices * size), code % (devices * size)
        here, task = rest // size, rest % size
        if event < 2:
            if event == 0:
                busy[here] = 0
                capacity[here] += give[task]
            else:
                pop(coming, coming_base[here], coming_count[here])
                coming_count[here] -= 1
                waits[task] -= 1
                if waits[task] == 0 and task >= forward_count:
                    if is_weight[task]:
                        push(weights, base[here], weight_count[here], rank[task])
                        weight_count[here] += 1
                    else:
                        push(inputs, base[here], input_count[here], rank[task])
                        input_count[here] += 1
            push_event(event_times, event_codes, events, now, (2 * devices + here) * size)
            events += 1
            continue
        if busy[here]:
            continue
        chosen, forward = -1, -1
        if next_forward[here] < forward_stop[here]:
            forward = forwards[next_forward[here]]
            if waits[forward]:
                forward = -1
        full = forward >= 0 and take[forward] > capacity[here]
        has_input, has_weight = input_count[here] > 0, weight_count[here] > 0
        if full and has_weight and weight_first:
            chosen = by_rank[weights[base[here]]]
        elif forward >= 0 and not full and not (has_input and inputs[base[here]] < rank[forward]):
            chosen = forward
        elif has_input:
            chosen = by_rank[inputs[base[here]]]
        else:
            if ahead > 0:
                room, overtaken = capacity[here], 0
                for place in range(next_forward[here], min(next_forward[here] + reach, forward_stop[here])):
                    other = forwards[place]
                    if started[other]:
                        continue
                    if waits[other] == 0:
                        if take[other] <= room:
                            chosen = other
                        break
                    if overtaken < ahead:
                        room -= take[other]
                    if room < 0:
                        break
                    overtaken += 1
            if chosen < 0 and has_weight:
                weight = by_rank[weights[base[here]]]
                if (
                    full
                    or coming_count[here] == 0
                    or now + duration[weight] <= coming[coming_base[here]] + grace[weight]
                ):
                    chosen = weight
        if chosen < 0:
            continue
        if chosen < forward_count:
            started[chosen] = 1
            place = next_forward[here]
            while place < forward_stop[here] and started[forwards[place]]:
                place += 1
            next_forward[here] = place
        elif is_weight[chosen]:
            pop(weights, base[here], weight_count[here])
            weight_count[here] -= 1
        else:
            pop(inputs, base[here], input_count[here])
            input_count[here] -= 1
        capacity[here] -= take[chosen]
        order[base[here] + order_count[here]] = chosen
        order_count[here] += 1
        busy[here] = 1
        ends = now + duration[chosen]
        push_event(event_times, event_codes, events, ends, here * size + chosen)
        events += 1
        for edge in range(first[chosen], first[chosen + 1]):
            other, arrives = after[edge], ends + lag[edge]
            there = machine[other]
            push_event(event_times, event_codes, events, arrives, (devices + there) * size + other)
            events += 1
            push(coming, coming_base[there], coming_count[there], arrives)
            coming_count[there] += 1
    return events


def arrange(
    first: Sequence[int], after: Sequence[int], left: MutableSequence[int], height: MutableSequence[int],
    tasks: MutableSequence[int],
) -> int:  # fmt: skip
    """Put tasks behind all that they wait for, by their `height`: the most waits on a way to each; return how many.

    `after` are the tasks that wait for each, `left` counts what each waits for itself; heights come as zeros.
    """
    done, at = 0, 0
    for task in range(len(left)):
        if left[task] == 0:
            tasks[done] = task
            done += 1
    while at < done:
        task = tasks[at]
        at += 1
        for wait in range(first[task], first[task + 1]):
            other = after[wait]
            height[other] = max(height[other], height[task] + 1)
            left[other] -= 1
            if left[other] == 0:
                tasks[done] = other
                done += 1
    return done


def share_vectors(
    first: Sequence[int], before: Sequence[int], unread: MutableSequence[int], vector: MutableSequence[int],
    free: MutableSequence[int],
) -> int:  # fmt: skip
    """Give each row a vector for its ends, free again once `unread` rows have read it; return how many."""
    vectors, spare = 0, 0
    for row in range(len(vector)):
        if spare > 0:
            spare -= 1
            vector[row] = free[spare]
        else:
            vector[row] = vectors
            vectors += 1
        for wait in range(first[row], first[row + 1]):
            other = before[wait]
            unread[other] -= 1
            if unread[other] == 0:
                free[spare] = vector[other]
                spare += 1
        if unread[row] == 0:
            free[spare] = vector[row]
            spare += 1
    return vectors


def sweep(
    begin: int, first: Sequence[int], before: Sequence[int], vector: Sequence[int], lag: Sequence[Any], delays: Any,
    lengths: Any, ends: Any,
) -> None:  # fmt: skip
    """Put the ends of the rows from `begin` on, of which `lengths` are given, into their vectors; a column is a case.

    Row r waits for the rows of `before` from `first[r]` to `first[r + 1]`, so long as `lag` and `delays` (a row a wait,
    or none at all) say. No row has the vector of one that it waits for.
    """
    cases, delayed = lengths.shape[1], len(delays) > 0
    for at in range(len(lengths)):
        row = begin + at
        own = vector[row]
        for case in range(cases):
            ends[own, case] = 0
        for wait in range(first[row], first[row + 1]):
            other, ticks = vector[before[wait]], lag[wait]
            if delayed:
                for case in range(cases):
                    ends[own, case] = max(ends[own, case], ends[other, case] + ticks + delays[wait, case])
            else:
                for case in range(cases):
                    ends[own, case] = max(ends[own, case], ends[other, case] + ticks)
        for case in range(cases):
            ends[own, case] += lengths[at, case]


def trace(
    first: Sequence[int], before: Sequence[int], delays: Sequence[int], ends: Sequence[int], last: Sequence[int],
    found: MutableSequence[int],
) -> None:  # fmt: skip
    """Mark in `found` the rows of a longest path of each case, backwards from its `last` one.

    A row's number times the number of cases, and the case, say where it stands in `ends` and `found`; so with waits.
    """
    cases = len(last)
    for case in range(cases):
        row = last[case]
        while row >= 0:
            found[row * cases + case] = 1
            latest, chosen = -1, -1
            for wait in range(first[row], first[row + 1]):
                other = before[wait]
                late = ends[other * cases + case] + delays[wait * cases + case]
                if late > latest:
                    latest, chosen = late, other
            row = chosen


def lengthen(
    order: Sequence[int], first: Sequence[int], after: Sequence[int], lag: Sequence[int], duration: Sequence[int],
    lengths: MutableSequence[int],
) -> None:  # fmt: skip
    """Make `lengths`, the ticks before each task in `order`, the longest paths; NONE is one that no path reaches."""
    for at in range(len(order)):
        task = order[at]
        if lengths[task] != -1:
            whole = lengths[task] + duration[task]
            for arrow in range(first[task], first[task + 1]):
                other = after[arrow]
                if lengths[other] < whole + lag[arrow]:
                    lengths[other] = whole + lag[arrow]
