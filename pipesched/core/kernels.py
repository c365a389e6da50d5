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
    keys: Sequence[int],
    values: Sequence[int],
    lags: Sequence[int],
    first: MutableSequence[int],
    found: MutableSequence[int],
    found_lags: MutableSequence[int],
) -> None:
    """Sort pairs of key and value by key, equal keys in their order: `first[key]` is where those of a key begin.

    `first` comes as zeros, one more than there are keys.
    """  # fmt: skip
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
    order: Sequence[int],
    stops: Sequence[int],
    first: Sequence[int],
    before: Sequence[int],
    lag: Sequence[int],
    duration: Sequence[int],
    start: MutableSequence[int],
    end: MutableSequence[int],
    clock: MutableSequence[int],
    place: MutableSequence[int],
    sleeper: MutableSequence[int],
    beyond: MutableSequence[int],
    awake: MutableSequence[int],
) -> int:
    """Time each machine's part of `order`, as early as orders and waits allow; return how many tasks have run.

    Machine m runs from `place[m]` to `stops[m]`, from time `clock[m]` on. `end` is below 0 for tasks that have not
    ended. `sleeper` (by task) and `beyond` (by machine) come as NONE: who sleeps until a task ends, and who else.
    """  # fmt: skip
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
    order: Sequence[int],
    begins: Sequence[int],
    machine: Sequence[int],
    position: Sequence[int],
    first: Sequence[int],
    before: Sequence[int],
    lag: Sequence[int],
    start: Sequence[int],
    end: Sequence[int],
    found: MutableSequence[int],
    left: MutableSequence[int],
    count: int,
) -> None:
    """Mark in `found` the tasks that cannot end later without a later end of all; `left` holds the `count` last ones.

    `order[begins[m] + position[task]]` is a task of machine m.
    """  # fmt: skip
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


def arrange(
    first: Sequence[int],
    after: Sequence[int],
    left: MutableSequence[int],
    height: MutableSequence[int],
    tasks: MutableSequence[int],
) -> int:
    """Put tasks behind all that they wait for, by their `height`: the most waits on a way to each; return how many.

    `after` are the tasks that wait for each, `left` counts what each waits for itself; heights come as zeros.
    """  # fmt: skip
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
    first: Sequence[int],
    before: Sequence[int],
    unread: MutableSequence[int],
    vector: MutableSequence[int],
    free: MutableSequence[int],
) -> int:
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
    begin: int,
    first: Sequence[int],
    before: Sequence[int],
    vector: Sequence[int],
    lag: Sequence[Any],
    delays: Any,
    lengths: Any,
    ends: Any,
) -> None:
    """Put the ends of the rows from `begin` on, of which `lengths` are given, into their vectors; a column is a case.

    Row r waits for the rows of `before` from `first[r]` to `first[r + 1]`, so long as `lag` and `delays` (a row a wait,
    or none at all) say. No row has the vector of one that it waits for.
    """  # fmt: skip
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
    first: Sequence[int],
    before: Sequence[int],
    delays: Sequence[int],
    ends: Sequence[int],
    last: Sequence[int],
    found: MutableSequence[int],
) -> None:
    """Mark in `found` the rows of a longest path of each case, backwards from its `last` one.

    A row's number times the number of cases, and the case, say where it stands in `ends` and `found`; so with waits.
    """  # fmt: skip
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
