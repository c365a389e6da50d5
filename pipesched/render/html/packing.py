"""Orders of many operations in little space: differences as bytes of seven bits, compressed, as text.

`page/unpack.js` reads what this writes. Numbers come column by column, because equal neighbours compress best:

    for each device and lane: its length, the sorts of slots on it, the sort of each slot
    the microbatch of each slot (and of its backward, in a pair), less the one that its sort had last and one more
    the wait edges: differences of the earlier and of the later operation
    where times are late: 1, and the start of each slot less the start of the one before it; else 0
    where operations have lengths of their own: 1, and each less the one before it; else 0
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterable, Sequence

from pipesched.pipeline.plan import Plan

ALONE = 0  # instead of the row of a backward: the slot is no pair


def packed(plan: Plan, starts: Sequence[int] | None = None, lengths: Sequence[int] | None = None) -> str:
    """Return a plan as base64 text: orders, pairs, lanes, wait edges, and `starts` and `lengths` in the same order."""
    numbers: list[int] = [len(plan.lanes)]
    microbatches: list[int] = []
    for order in plan.machines:
        sorts: dict[tuple[int, int], int] = {}
        last: dict[int, int] = {}
        column = []
        for number in order:
            row, backward = number // plan.index.microbatches, plan.pairs.get(number)
            other = ALONE if backward is None else 1 + backward // plan.index.microbatches
            column.append(sorts.setdefault((row, other), len(sorts)))
            for part in (number,) if backward is None else (number, backward):
                at, microbatch = divmod(part, plan.index.microbatches)
                microbatches.append(signed(microbatch - last.get(at, -1) - 1))
                last[at] = microbatch
        numbers += [len(order), len(sorts), *(entry for sort in sorts for entry in sort), *column]
    numbers += microbatches
    numbers.append(len(plan.waits))
    for column_of_waits in zip(*plan.waits, strict=True):
        numbers += _differences(column_of_waits)
    for times in (starts, lengths):
        numbers.append(int(times is not None))
        numbers += _differences(times or ())
    return compressed(_bytes(numbers))


def compressed(content: str | bytes) -> str:
    """Return a content as base64 text of its gzip, the same in every run."""
    plain = content.encode() if isinstance(content, str) else content
    return base64.b64encode(gzip.compress(plain, 9, mtime=0)).decode()


def signed(number: int) -> int:
    """Return a number without a sign: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4."""
    return 2 * number if number >= 0 else -2 * number - 1


def _differences(values: Sequence[int]) -> Iterable[int]:
    return (signed(value - before) for before, value in zip((0, *values), values, strict=False))


def _bytes(numbers: Iterable[int]) -> bytes:
    """Return numbers seven bits at a time, the lowest first; the eighth bit says that more follow."""
    found = bytearray()
    for number in numbers:
        rest = number
        while rest > 127:
            found.append(rest & 127 | 128)
            rest >>= 7
        found.append(rest)
    return bytes(found)
