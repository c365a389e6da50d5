"""Ranges with names of their own: the stage is the rank, and microbatches are counted.

How many there are in a step is told by the plan, by numbers that ranges have, or by the first rank: its step ends where
as many backwards as forwards are done. Ranges hold no waiting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pipesched.analysis.measured.ranges import NamedRange, Range, Recorded, idle_as_waits
from pipesched.checks import require_name, require_type, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.ops import Op

LETTERS = "FBIW"


CountedRank = tuple[int, str, Sequence[NamedRange]]  # its number, its file, its ranges by the letters of operations


def names_of(given: Any) -> dict[str, str]:
    """Return patterns of names, each with the letter of an operation. Raises ConfigError about `ranges`."""
    if isinstance(given, str):
        given = {name.strip(): letter.strip() for name, _, letter in (one.rpartition("=") for one in given.split(","))}
    known = dict(require_type({} if given is None else given, Mapping, "a mapping: {'forward_step': 'F'}", "ranges"))
    for name, letter in known.items():
        if not isinstance(name, str) or not name:
            raise ConfigError(f"must look like forward_step=F,backward_step=B, not {shown(name or letter)}", "ranges")
        require_name(LETTERS, letter, f"operation of {name}", "ranges")
    return known


def in_steps(ranks: Sequence[CountedRank], microbatches: int | None = None) -> list[Recorded]:
    """Return what each rank recorded step by step, with so many microbatches where the plan says it.

    Raises ConfigError for a rank without ranges.
    """
    for _, file, ranges in ranks:
        if not ranges:
            raise ConfigError(f"{file} holds no range with one of the names of `ranges`")
    rows = [(*rank[:2], sorted(rank[2], key=lambda one: one.start)) for rank in sorted(ranks, key=lambda one: one[0])]
    count = microbatches or max(_in_a_step(row) for _, _, row in rows)
    return [_recorded(rank, file, row, stage, count) for stage, (rank, file, row) in enumerate(rows)]


def _in_a_step(row: Sequence[NamedRange]) -> int:
    """Return how many microbatches are begun before all that began has ended; all where only one kind ran."""
    numbers = [one.microbatch for one in row if one.microbatch is not None]
    letters, ran = {one.name for one in row}, Counter[str]()
    for one in row:
        ran[one.name] += 1
        if len(letters) > 1 and len({ran[letter] for letter in letters}) == 1:
            break
    return max(numbers) + 1 if numbers else max(ran.values())


def _recorded(rank: int, file: str, row: Sequence[NamedRange], stage: int, count: int) -> Recorded:
    ran, names, placed = Counter[Any](), list[str](), list[Range]()
    for one in row:
        key = (one.name, one.microbatch)
        step, number = divmod(ran[key], count) if one.microbatch is None else (ran[key], one.microbatch)
        ran[key] += 1
        names.append(str(step))
        placed.append(Range(Op._make((stage, one.name, number, 0)), one.start, one.end))
    steps: dict[str, list[Range]] = {}
    for name, waited in zip(names, idle_as_waits(placed, row[0].start), strict=True):
        steps.setdefault(name, []).append(waited)
    return Recorded(rank, file, steps, apart=True)
