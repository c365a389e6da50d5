"""The orders of operations of some families, written from their rules as texts of operations, device by device.

P devices, M microbatches of n slices. Nothing of the package is imported, and no plan is shared with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction

Rows = list[list[str]]
Unit = tuple[int, int]


def text(stage: int, kind: str, unit: Unit, slices: int) -> str:
    """The text of an operation."""
    microbatch, part = unit
    return f"{stage}{kind}{microbatch}" + (f".{part}" if slices > 1 else "")


def units(microbatches: Iterable[int], slices: int, *, back: bool = False) -> list[Unit]:
    """The units of microbatches in turn; of each, `back`, the last slice first."""
    parts = range(slices)[::-1] if back else range(slices)
    return [(microbatch, part) for microbatch in microbatches for part in parts]


def in_turn(forwards: Sequence[str], backwards: Sequence[str], warm_up: int) -> list[str]:
    """Some forwards, then a forward and a backward in turn while there are forwards, then the backwards left."""
    row, coming = [*forwards[:warm_up]], iter(backwards)
    for forward in forwards[warm_up:]:
        row += [forward, next(coming)]
    return [*row, *coming]


def naive(p: int, m: int, n: int = 1) -> Rows:
    """All forwards, unit by unit, then all backwards."""
    return [
        [text(d, "F", unit, n) for unit in units(range(m), n)]
        + [text(d, "B", unit, n) for unit in units(range(m), n, back=True)]
        for d in range(p)
    ]


def sequential(p: int, m: int, n: int = 1) -> Rows:
    """One microbatch after the other, forward and backward."""
    rows: Rows = [[] for _ in range(p)]
    for d, row in enumerate(rows):
        for mb in range(m):
            row += [text(d, "F", unit, n) for unit in units([mb], n)]
            row += [text(d, "B", unit, n) for unit in units([mb], n, back=True)]
    return rows


def seq_1f1b(p: int, m: int, n: int = 1) -> Rows:
    """Seq1F1B: P-d-2+n forwards of units, then F and B in turn; the backwards of a microbatch from its last slice."""
    forwards, backwards = units(range(m), n), units(range(m), n, back=True)
    return [
        in_turn(
            [text(d, "F", unit, n) for unit in forwards],
            [text(d, "B", unit, n) for unit in backwards],
            min(p - d - 2 + n, m * n),
        )
        for d in range(p)
    ]


def looped_bfs(p: int, v: int, m: int) -> Rows:
    """Breadth first: all microbatches through a chunk, then the next; the backwards from the last chunk."""
    return [
        [f"{chunk * p + d}F{mb}" for chunk in range(v) for mb in range(m)]
        + [f"{chunk * p + d}B{mb}" for chunk in range(v)[::-1] for mb in range(m)]
        for d in range(p)
    ]


def interleaved(p: int, v: int, m: int, n: int = 1, group: int | None = None) -> Rows:
    """Interleaved: a group of microbatches, all their slices, through a chunk before the next chunk.

    (V-1)gn + 2(P-d-1) + n-1 forwards, then F and B in turn. Groups hold P/n microbatches, rounded up, by default.
    """
    g = -(-p // n) if group is None else group
    if v == 1:
        return seq_1f1b(p, m, n)
    return [
        in_turn(
            [text(chunk * p + d, "F", unit, n) for chunk, unit in _visits(v, m, n, g)],
            [text((v - 1 - chunk) * p + d, "B", unit, n) for chunk, unit in _visits(v, m, n, g, back=True)],
            min((v - 1) * min(g, m) * n + 2 * (p - d - 1) + n - 1, v * m * n),
        )
        for d in range(p)
    ]


def _visits(v: int, m: int, n: int, group: int, *, back: bool = False) -> list[tuple[int, Unit]]:
    """(chunk, unit) in the order in which groups visit the chunks."""
    return [
        (chunk, unit)
        for first in range(0, m, group)
        for chunk in range(v)
        for unit in units(range(m)[first : first + group], n, back=back)
    ]


def forward_naive(p: int, m: int, n: int = 1) -> Rows:
    """Forward only: all units in turn."""
    return [[text(d, "F", unit, n) for unit in units(range(m), n)] for d in range(p)]


def forward_interleaved(p: int, v: int, m: int, n: int = 1, group: int | None = None) -> Rows:
    """Forward only: groups of P/n microbatches, rounded up, through a chunk before the next chunk."""
    g = -(-p // n) if group is None else group
    return [[text(chunk * p + d, "F", unit, n) for chunk, unit in _visits(v, m, n, g)] for d in range(p)]


def forward_looped_bfs(p: int, v: int, m: int, n: int = 1) -> Rows:
    """Forward only: all units through a chunk, then the next."""
    return forward_interleaved(p, v, m, n, group=m)


def renamed(rows: Rows, order: Sequence[int]) -> Rows:
    """The same rows with the i-th microbatch fed called order[i]."""

    def named(op: re.Match[str]) -> str:
        return f"{op[1]}{order[int(op[2])]}"

    return [[re.sub(r"(\d[FBIWROL])(\d+)", named, slot) for slot in row] for row in rows]


def verl(work: Sequence[Fraction] | Sequence[int]) -> list[int]:
    """The rule of `rearrange_micro_batches`: the largest in the middle, smaller ones on either side in turn."""
    falling = sorted(range(len(work)), key=lambda microbatch: (work[microbatch], microbatch), reverse=True)
    return falling[::2][::-1] + falling[1::2]
