# cython: boundscheck=False, wraparound=False, cdivision=True, infer_types=True, annotation_typing=False
"""The loops over operations: flat, over integers, without objects.

This file runs as it stands, with lists for columns; where a C compiler is at the install, it is compiled with the types
of `kernels.pxd`, and takes arrays. Nothing here checks its arguments: who calls has numbers in range. `NONE` is no
task. Rows of waits are compressed: those of task i stand from `first[i]` to `first[i + 1]`.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

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
