# cython: boundscheck=False, wraparound=False, cdivision=True, infer_types=True, annotation_typing=False
"""The loops over operations: flat, over integers, without objects.

This file runs as it stands, with lists for columns; where a C compiler is at the install, it is compiled with the types
of `kernels.pxd`, and takes arrays. Nothing here checks its arguments: who calls has numbers in range. `NONE` is no
task. Rows of waits are compressed: those of task i stand from `first[i]` to `first[i + 1]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any

Ints = Sequence[int]  # a column that is read
Out = MutableSequence[int]  # and one that is written
NONE = -1
WORD = 2**64 - 1  # C drops what is beyond, plain Python by this mask


def compress(keys: Ints, values: Ints, lags: Ints, first: Out, found: Out, found_lags: Out) -> None:
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
    order: Ints, stops: Ints, first: Ints, before: Ints, lag: Ints, duration: Ints, start: Out, end: Out, clock: Out,
    place: Out, beyond: Out, awake: Out,
) -> int:  # fmt: skip
    """Time each machine's part of `order`, as early as orders and waits allow; return how many tasks have run.

    Machine m runs from `place[m]` to `stops[m]`, from time `clock[m]` on. `end` is NONE for tasks that have not ended.
    While machine m sleeps until one ends, its end is -2 - m, and `beyond[m]` is what that was before.
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
                    beyond[machine] = ended
                    end[other] = -2 - machine
                    asleep = True
                    break
                ready = ended + lag[wait]
                if ready > now:
                    now = ready
            if asleep:
                break
            sleeper = end[task]
            start[task] = now
            now += duration[task]
            end[task] = now
            if sleeper < 0:  # a task that stands twice has run once
                done += 1
            at += 1
            while sleeper < -1:
                awake[waking] = -2 - sleeper
                waking += 1
                sleeper = beyond[-2 - sleeper]
        place[machine] = at
        clock[machine] = now
    return done


def critical(
    order: Ints, begins: Ints, machine: Ints, position: Ints, first: Ints, before: Ints, lag: Ints, start: Ints,
    end: Ints, found: Out, left: Out, count: int,
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


def block_moves(
    order: Ints, begins: Ints, machine: Ints, position: Ints, first: Ints, before: Ints, lag: Ints, start: Ints,
    end: Ints, row: Ints, following: Ints, preceding: Ints, latest: int, toss: Callable[[], float], blocks: Out,
    row_seen: Out, seen: Out, found: Out,
) -> int:  # fmt: skip
    """Find moves at the inner ends of the blocks of a critical path of machine `latest`; return three times how many.

    A block is a machine, its first and its last position. A move is a machine, and the positions from and to. Where the
    path forks, `toss` below 0.5 stays on the machine. In a block the nearest task of each other `row` moves behind the
    last task, but not over its `following` one; another moves before the first, but not over its `preceding` one.
    """
    here, base = latest, begins[latest]
    last = at = begins[latest + 1] - base - 1
    count, moves, stamp = 0, 0, 0
    while True:
        task = order[base + at]
        began = start[task]
        is_close = at > 0 and end[order[base + at - 1]] == began
        awaited = -1
        for wait in range(first[task], first[task + 1]):
            other = before[wait]
            if end[other] + lag[wait] == began and machine[other] != here:
                awaited = other
                break
        if awaited >= 0 and is_close and toss() < 0.5:
            awaited = -1
        if awaited < 0 and is_close:
            at -= 1
            continue
        blocks[count], blocks[count + 1], blocks[count + 2] = here, at, last
        count += 3
        if awaited < 0:
            break
        here = machine[awaited]
        base = begins[here]
        last = at = position[awaited]
    for to_end in range(1, -1, -1):
        for block in range(3 * to_end, count - 3 * (1 - to_end), 3):
            here, low, high = blocks[block], blocks[block + 1], blocks[block + 2]
            base = begins[here]
            stamp += 1
            for place in range(high - low + 1):
                at = high - place if to_end else low + place
                task = order[base + at]
                needed = following[task] if to_end else preceding[task]
                is_met = 0 <= needed < len(seen) and seen[needed] == stamp
                if place > 0 and row_seen[row[task]] != stamp and not is_met:
                    found[moves], found[moves + 1], found[moves + 2] = here, at, high if to_end else low
                    moves += 3
                row_seen[row[task]] = stamp
                seen[task] = stamp
    return moves


def move(order: Out, source: int, target: int) -> None:
    """Take the task at place `source` out, and put it in at place `target`."""
    task, step = order[source], 1 if source < target else -1
    while source != target:
        order[source] = order[source + step]
        source += step
    order[target] = task


def last_end(order: Ints, begins: Ints, offset: Ints, end: Ints) -> int:
    """Return the largest over machines of the end of its last task, less its offset."""
    most = end[order[begins[1] - 1]] - offset[0]
    for number in range(1, len(offset)):
        most = max(most, end[order[begins[number + 1] - 1]] - offset[number])
    return most


def below(bits: Callable[[int], int], count: int) -> int:
    """Return a random whole number below `count`, the same that `randrange` draws where `bits` is `getrandbits`."""
    width = 0
    while count >> width > 0:
        width += 1
    found = count
    while found >= count:
        found = bits(width)
    return found


def shorten(
    rounds: int, slack: int, busy: int, most_dry: int, look: Callable[[], None], toss: Callable[[], float],
    bits: Callable[[int], int], best: Out, begins: Ints, first: Ints, before: Ints, lag: Ints, duration: Ints,
    take: Ints, give: Ints, capacity: Ints, offset: Ints, row: Ints, following: Ints, preceding: Ints, order: Out,
    start: Out, end: Out, machine: Ints, position: Out, new_start: Out, new_end: Out, seen: Out, row_seen: Out,
    blocks: Out, moves: Out, place: Out, clock: Out, beyond: Out, awake: Out,
) -> int:  # fmt: skip
    """Move tasks at the ends of critical blocks while that shortens; leave the best order in `best`, return its length.

    `best` and `order` begin alike, `start` and `end` are their times. At most `rounds` orders are timed, or `most_dry`
    times no move helps. What starts before the first task that a move shifts keeps its times. `look` may raise.
    """
    machines, left, dry, count, is_new = len(capacity), rounds, 0, 0, True
    length = least = last_end(order, begins, offset, end)
    while left > 0 and dry < most_dry:
        if count == 0:
            look()
            dry += 0 if is_new else 1
            is_new = False
            ties = 0
            for number in range(machines):
                if end[order[begins[number + 1] - 1]] - offset[number] == length:
                    awake[ties] = number
                    ties += 1
            for task in range(len(seen)):
                seen[task] = 0
            for task in range(len(row_seen)):
                row_seen[task] = 0
            count = block_moves(order, begins, machine, position, first, before, lag, start, end, row, following,
                                preceding, awake[below(bits, ties)], toss, blocks, row_seen, seen, moves)  # fmt: skip
            for at in range(count // 3 - 1, 0, -1):
                other = below(bits, at + 1)
                for part in range(3):
                    swapped = moves[3 * at + part]
                    moves[3 * at + part] = moves[3 * other + part]
                    moves[3 * other + part] = swapped
            continue
        count -= 3
        here, base = moves[count], begins[moves[count]]
        source, target = base + moves[count + 1], base + moves[count + 2]
        low, high = min(source, target), max(source, target)
        since = start[order[low]]
        move(order, source, target)
        waiting, done, reached = 0, -1, 0
        if fits(order, base, begins[here + 1], take, give, capacity[here]):
            new_start[:] = start
            new_end[:] = end
            for number in range(machines):
                at = begins[number + 1]
                while at > begins[number] and start[order[at - 1]] >= since:
                    at -= 1
                    new_end[order[at]] = -1
                place[number] = at
                clock[number] = end[order[at - 1]] if at > begins[number] else 0
                waiting += begins[number + 1] - at
            done = replay(order, begins[1:], first, before, lag, duration, new_start, new_end, clock, place, beyond,
                          awake)  # fmt: skip
        if done == waiting:
            left -= 1
            reached = last_end(order, begins, offset, new_end)
        over = slack * (least - busy) * left
        over = over // (1000 * rounds) if over >= 0 else -((1000 * rounds - 1 - over) // (1000 * rounds))
        if done < waiting or reached > least + over:
            move(order, target, source)
            continue
        start, new_start, end, new_end = new_start, start, new_end, end
        for at in range(low, high + 1):
            position[order[at]] = at - base
        dry = dry if reached == length else 0
        length, count, is_new = reached, 0, True
        if length < least:
            least = length
            best[:] = order
    return least


def push(keys: Out, items: Out, base: int, size: int, key: int, item: int) -> None:
    """Add an item to a heap of `size` items that stands from `base` on, the least key first; both may be one column."""
    place = size
    while place > 0:
        above = (place - 1) // 2
        if keys[base + above] <= key:
            break
        keys[base + place] = keys[base + above]
        items[base + place] = items[base + above]
        place = above
    keys[base + place] = key
    items[base + place] = item


def pop(keys: Out, items: Out, base: int, size: int) -> int:
    """Take the first item out of a heap of `size` items that stands from `base` on, and return it."""
    end = base + size - 1
    first, key, item, place, below = items[base], keys[end], items[end], 0, 1
    while below < size - 1:
        if below + 1 < size - 1 and keys[base + below + 1] < keys[base + below]:
            below += 1
        if keys[base + below] >= key:
            break
        keys[base + place] = keys[base + below]
        items[base + place] = items[base + below]
        place = below
        below = 2 * place + 1
    keys[base + place] = key
    items[base + place] = item
    return first


def dispatch(
    steps: int, ahead: int, reach: int, weight_first: int, forward_count: int, duration: Ints, take: Ints, give: Ints,
    machine: Ints, grace: Ints, first: Ints, after: Ints, lag: Ints, rank: Ints, by_rank: Ints, is_weight: Ints,
    forwards: Ints, forward_stop: Ints, base: Ints, coming_base: Ints, waits: Out, started: Out, next_forward: Out,
    capacity: Out, busy: Out, inputs: Out, input_count: Out, weights: Out, weight_count: Out, coming: Out,
    coming_count: Out, order: Out, order_count: Out, event_times: Out, event_codes: Out, choices: Out, pending: Out,
    state: Out,
) -> int:  # fmt: skip
    """Let devices choose what they run, event by event, for at most so many `steps`; return how many things are left.

    An end has the code of its task, an arrival the number of tasks + the row of `after`. Those of one moment come
    before `choices`, a heap of devices. `inputs` and `weights` are heaps of what is ready, by `rank`. `coming` are
    heaps of the times of inputs from other devices. `state` is the time, the count of events, and that of choices.
    """
    size = len(duration)
    now, events, choosing = state[0], state[1], state[2]
    while steps > 0 and events + choosing > 0:
        steps -= 1
        if choosing == 0 or (events > 0 and event_times[0] <= now):
            now = event_times[0]
            code = pop(event_times, event_codes, 0, events)
            events -= 1
            here = -1
            row, stop = code - size, code - size + 1
            if code < size:
                here = machine[code]
                busy[here] = 0
                capacity[here] += give[code]
                row, stop = first[code], first[code + 1]
                if not pending[here]:
                    pending[here] = 1
                    push(choices, choices, 0, choosing, here, here)
                    choosing += 1
            for edge in range(row, stop):
                if here >= 0 and lag[edge] > 0:
                    continue  # it arrives later
                task = after[edge]
                there = machine[task]
                if there != here:
                    pop(coming, coming, coming_base[there], coming_count[there])
                    coming_count[there] -= 1
                    if not pending[there]:
                        pending[there] = 1
                        push(choices, choices, 0, choosing, there, there)
                        choosing += 1
                waits[task] -= 1
                if waits[task] == 0 and task >= forward_count:
                    if is_weight[task]:
                        push(weights, weights, base[there], weight_count[there], rank[task], rank[task])
                        weight_count[there] += 1
                    else:
                        push(inputs, inputs, base[there], input_count[there], rank[task], rank[task])
                        input_count[there] += 1
            continue
        here = pop(choices, choices, 0, choosing)
        choosing -= 1
        pending[here] = 0
        if busy[here]:
            continue
        chosen, forward, room = -1, -1, capacity[here]
        if next_forward[here] < forward_stop[here]:
            forward = forwards[next_forward[here]]
            if waits[forward] > 0:
                forward = -1
        full = forward >= 0 and take[forward] > room
        if full and weight_first and weight_count[here] > 0:
            chosen = by_rank[weights[base[here]]]
        elif forward >= 0 and not full and (input_count[here] == 0 or inputs[base[here]] > rank[forward]):
            chosen = forward
        elif input_count[here] > 0:
            chosen = by_rank[inputs[base[here]]]
        else:
            overtaken = 0
            place = next_forward[here]
            while ahead > 0 and place < forward_stop[here] and place < next_forward[here] + reach:
                task = forwards[place]
                place += 1
                if started[task]:
                    continue
                if waits[task] == 0:
                    if take[task] <= room:
                        chosen = task
                    break
                if overtaken < ahead:
                    room -= take[task]
                if room < 0:
                    break
                overtaken += 1
            if chosen < 0 and weight_count[here] > 0:
                task = by_rank[weights[base[here]]]
                if full or coming_count[here] == 0 or now + duration[task] - grace[task] <= coming[coming_base[here]]:
                    chosen = task
        if chosen < 0:
            continue
        if chosen < forward_count:
            started[chosen] = 1
            place = next_forward[here]
            while place < forward_stop[here] and started[forwards[place]]:
                place += 1
            next_forward[here] = place
        elif is_weight[chosen]:
            pop(weights, weights, base[here], weight_count[here])
            weight_count[here] -= 1
        else:
            pop(inputs, inputs, base[here], input_count[here])
            input_count[here] -= 1
        capacity[here] -= take[chosen]
        order[base[here] + order_count[here]] = chosen
        order_count[here] += 1
        busy[here] = 1
        ends = now + duration[chosen]
        push(event_times, event_codes, 0, events, ends, chosen)
        events += 1
        for edge in range(first[chosen], first[chosen + 1]):
            there = machine[after[edge]]
            if lag[edge] > 0:
                push(event_times, event_codes, 0, events, ends + lag[edge], size + edge)
                events += 1
            elif there == here:
                continue
            push(coming, coming, coming_base[there], coming_count[there], ends + lag[edge], ends + lag[edge])
            coming_count[there] += 1
    state[0] = now
    state[1] = events
    state[2] = choosing
    return events + choosing


def greedy(
    steps: int, events: int, heap: Out, alternate: int, first_patience: int, patience: int, weight_patience: int,
    microbatches: int, in_flight: Ints, duration: Ints, change: Ints, size: Ints, caught: Ints, there: Ints, back: Ints,
    capacity: Out, done: Out, free_at: Out, after_forward: Out, forward_at: Out, input_at: Out, order: Out,
) -> int:  # fmt: skip
    """Let devices in a row choose F, I or W, look by look, for at most so many `steps`; return how many looks are left.

    A look in `heap` is its time x devices + the device. Place k x devices + d of a column is of kind k on device d:
    `duration`, `change` of the room, and how many are `done`. Behind these, `done` counts the known inputs of F and of
    I. `forward_at` and `input_at` say when these come, microbatch by microbatch.
    """
    devices = len(size)
    while events > 0 and steps > 0:
        steps -= 1
        look = pop(heap, heap, 0, events)
        events -= 1
        now, here = look // devices, look % devices
        if free_at[here] > now:
            continue
        forwards, inputs, weights = done[here], done[devices + here], done[2 * devices + here]
        comes = inputs < done[4 * devices + here]
        at = input_at[here * microbatches + inputs] if comes else 0
        may = size[here] + caught[here] <= capacity[here] and forwards - inputs < in_flight[here]
        may = may and forwards < done[3 * devices + here]
        ahead = forward_at[here * microbatches + forwards] if may else 0
        kind = -1
        if comes and at <= now:
            if caught[here] > capacity[here]:
                kind = 2
            elif may and ahead <= now and alternate and not after_forward[here]:
                kind = 0
            else:
                kind = 1
        else:
            if may and ahead <= now:
                waited = patience if inputs > 0 else first_patience
                if not comes or 2 * (at - now) >= waited * duration[here]:
                    kind = 0
                may = False
            if kind < 0:
                wakes = comes or may
                wake = at if comes and not (may and ahead < at) else ahead
                if weights < inputs and (
                    not wakes or 2 * (wake - now) >= weight_patience * duration[2 * devices + here]
                ):
                    kind = 2
                elif wakes:
                    push(heap, heap, 0, events, wake * devices + here, wake * devices + here)
                    events += 1
        if kind < 0:
            continue
        order[3 * microbatches * here + forwards + inputs + weights] = (kind * devices + here) * microbatches + done[
            kind * devices + here
        ]
        done[kind * devices + here] += 1
        capacity[here] += change[kind * devices + here]
        if kind < 2:
            after_forward[here] = 1 - kind
        end = now + duration[kind * devices + here]
        free_at[here] = end
        push(heap, heap, 0, events, end * devices + here, end * devices + here)
        events += 1
        if kind == 0 and here == devices - 1:
            input_at[here * microbatches + done[4 * devices + here]] = end
            done[4 * devices + here] += 1
        elif kind == 0:
            other, arrives = here + 1, end + there[here]
            forward_at[other * microbatches + done[3 * devices + other]] = arrives
            done[3 * devices + other] += 1
            push(heap, heap, 0, events, arrives * devices + other, arrives * devices + other)
            events += 1
        elif kind == 1 and here > 0:
            other, arrives = here - 1, end + back[here - 1]
            input_at[other * microbatches + done[4 * devices + other]] = arrives
            done[4 * devices + other] += 1
            push(heap, heap, 0, events, arrives * devices + other, arrives * devices + other)
            events += 1
    return events


def fits(order: Ints, at: int, stop: int, take: Ints, give: Ints, capacity: int) -> bool:
    """Return whether the tasks at these places of `order`, run one by one, never hold more than `capacity`."""
    while at < stop:
        capacity -= take[order[at]]
        if capacity < 0:
            return False
        capacity += give[order[at]]
        at += 1
    return True


def arrange(first: Ints, after: Ints, left: Out, height: Out, tasks: Out) -> int:
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


def share_vectors(first: Ints, before: Ints, unread: Out, vector: Out, free: Out) -> int:
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
    begin: int, first: Ints, before: Ints, vector: Ints, lag: Sequence[Any], delays: Any, lengths: Any, ends: Any
) -> None:
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


def pile(events: Ints, stops: Ints, cells: Any, level: Out, most: Any) -> None:
    """Put the highest level of each machine, at least 0, into `most`, which holds 0; a column is a case.

    The events of machine m, up to `stops[m]`, add a row of `cells` each, from 0 on; `level` is room for a row.
    """
    cases, at = len(level), 0
    for machine in range(len(stops)):
        for case in range(cases):
            level[case] = 0
        for event in range(at, stops[machine]):
            row = events[event]
            for case in range(cases):
                level[case] += cells[row, case]
                most[machine, case] = max(most[machine, case], level[case])
        at = stops[machine]


def trace(first: Ints, before: Ints, delays: Ints, ends: Ints, last: Ints, found: Out) -> None:
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


def lengthen(order: Ints, first: Ints, after: Ints, lag: Ints, duration: Ints, lengths: Out) -> None:
    """Make `lengths`, the ticks before each task in `order`, the longest paths; NONE is one that no path reaches."""
    for at in range(len(order)):
        task = order[at]
        if lengths[task] != -1:
            whole = lengths[task] + duration[task]
            for arrow in range(first[task], first[task + 1]):
                other = after[arrow]
                if lengths[other] < whole + lag[arrow]:
                    lengths[other] = whole + lag[arrow]


def match(
    duration: Ints, first: Ints, after: Ints, lag: Ints, line: Ints, one: Ints, two: Ints, base: Ints,
    touched_first: Ints, touched: Ints, rank: Ints, by_rank: Ints, here: Ints, there: Ints, left: Out, ready: Out,
    waiting: Out, count: Out, is_busy: Out, is_dirty: Out, dirty: Out, last: Out, times: Out, codes: Out, end: Out,
    picked: Out, behind_here: Out, behind_there: Out,
) -> int:  # fmt: skip
    """Run tasks as soon as they may; of those in lines, which need both resources of theirs, the least rank first.

    A task in no line (NONE) needs none. Each wait is counted in `left`. Tasks of one machine, `here` and no `there`,
    are noted as the `last` one that it started; those of two are listed as `picked`, each behind what both started
    last. Return how many these are.
    """
    size, events, found = len(duration), 0, 0
    for task in range(size):
        if left[task] == 0:
            push(times, codes, 0, events, 0, task)
            events += 1
    while events > 0:
        now, dirts = times[0], 0
        while events > 0 and times[0] == now:
            code = pop(times, codes, 0, events)
            events -= 1
            if code < size:
                own = line[code]
                if own >= 0:
                    push(waiting, waiting, base[own], count[own], rank[code], rank[code])
                    count[own] += 1
                    if not is_dirty[own]:
                        is_dirty[own] = 1
                        dirty[dirts] = own
                        dirts += 1
                    continue
                if here[code] >= 0:
                    last[here[code]] = code
                push(times, codes, 0, events, now + duration[code], size + code)
                events += 1
                continue
            task = code - size
            end[task] = now
            own = line[task]
            if own >= 0:
                for turn in range(2):
                    resource = one[own] if turn == 0 else two[own]
                    is_busy[resource] = 0
                    for at in range(touched_first[resource], touched_first[resource + 1]):
                        other = touched[at]
                        if not is_dirty[other]:
                            is_dirty[other] = 1
                            dirty[dirts] = other
                            dirts += 1
            for at in range(first[task], first[task + 1]):
                other = after[at]
                if now + lag[at] > ready[other]:
                    ready[other] = now + lag[at]
                left[other] -= 1
                if left[other] == 0:
                    push(times, codes, 0, events, ready[other], other)
                    events += 1
        while True:
            best, chosen = -1, -1
            for at in range(dirts):
                own = dirty[at]
                if count[own] > 0 and not is_busy[one[own]] and not is_busy[two[own]]:
                    if best < 0 or waiting[base[own]] < best:
                        best, chosen = waiting[base[own]], own
            if best < 0:
                break
            pop(waiting, waiting, base[chosen], count[chosen])
            count[chosen] -= 1
            is_busy[one[chosen]] = 1
            is_busy[two[chosen]] = 1
            task = by_rank[best]
            if there[task] < 0:
                last[here[task]] = task
            else:
                picked[found] = task
                found += 1
                behind_here[task] = last[here[task]]
                behind_there[task] = last[there[task]]
            push(times, codes, 0, events, now + duration[task], size + task)
            events += 1
        for at in range(dirts):
            is_dirty[dirty[at]] = 0
    return found


def draw(width: Sequence[float], inside: Ints, height: Sequence[float], words: Any, rows: Any) -> None:
    """Fill each row with the normal numbers that NumPy draws by the generator SFC64 from the row's four words.

    The ziggurat of Marsaglia and Tsang: a number picks a layer and a place; most are `inside`. Layers from 256 on have
    the other sign. At the edge of a layer the density at its `height` decides, beyond layer 0 two logarithms do.
    """
    cases = rows.shape[1]
    for at in range(len(rows)):
        a, b, c, count = words[at, 0], words[at, 1], words[at, 2], words[at, 3]
        case, layer, place, value, tail = 0, -1, 0, 0.0, -1.0
        while case < cases:
            drawn = a + b + count
            count += 1
            a = b ^ (b >> 11)
            b = (c + (c << 3)) & WORD
            c = ((c << 24 | c >> 40) + drawn) & WORD
            if layer < 0:
                chosen = drawn & 511
                place = (drawn << 3 & WORD) >> 12
                value = place * width[chosen]
                rows[at, case] = value
                if place < inside[chosen]:
                    case += 1
                else:
                    layer = chosen & 255
                continue
            share = ((drawn & WORD) >> 11) * 1.1102230246251565e-16  # of 1
            if layer > 0:
                if (height[layer - 1] - height[layer]) * share + height[layer] < math.exp(-0.5 * value * value):
                    case += 1
                layer = -1
            elif tail < 0:
                tail = -0.27366123732975828 * math.log1p(-share)
            else:
                if -2 * math.log1p(-share) > tail * tail:
                    rows[at, case] = -3.6541528853610088 - tail if place & 256 else 3.6541528853610088 + tail
                    case += 1
                    layer = -1
                tail = -1.0
