"""Ranges with names of their own: the stage is the rank, and microbatches are counted.

What the n-th forward of a rank is follows from how many there are in a step. That is told by the plan, by numbers that
ranges have, or by the first rank: its step ends where as many backwards as forwards are done. Ranges hold no waiting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from pipesched.analysis.measured.ranges import Range, Recorded, idle_as_waits
from pipesched.checks import require_name, require_type, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.ops import Op

KNOWN = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}


class Counted(NamedTuple):
    """A range in ticks, which is an operation of this kind; its microbatch where the trace says it."""

    letter: str
    start: int
    end: int
    microbatch: int | None = None


class CountedRank(NamedTuple):
    """The ranges of a rank."""

    rank: int
    file: str
    ranges: Sequence[Counted]


def names_of(given: Any) -> dict[str, str]:
    """Return patterns of names, each with the letter of an operation. Raises ConfigError about `ranges`."""
    if given is None:
        return {}
    known = dict(require_type(given, Mapping, "a mapping of names, {'forward_step': 'F'}", "ranges"))
    if not known:
        raise ConfigError("needs a name at least, as in forward_step=F", "ranges")
    for name, letter in known.items():
        if not isinstance(name, str) or not name:
            raise ConfigError(f"must be names of ranges, not {shown(name)}", "ranges")
        require_name(KNOWN, letter, f"operation of {name}", "ranges")
    return known


def letter_of(name: str, names: Mapping[str, str]) -> str:
    """Return the letter of a range; nothing where no pattern fits its name."""
    return names.get(name) or next((letter for one, letter in names.items() if fnmatchcase(name, one)), "")


def in_steps(ranks: Sequence[CountedRank], microbatches: int | None = None) -> list[Recorded]:
    """Return what each rank recorded step by step, with so many microbatches where the plan says it.

    Raises ConfigError for a rank without ranges.
    """
    for rank in ranks:
        if not rank.ranges:
            raise ConfigError(f"{rank.file} holds no range with one of the names of `ranges`")
    count = microbatches or max(map(_in_a_step, ranks))
    ordered = sorted(ranks, key=lambda one: one.rank)
    return [_recorded(rank, stage, count) for stage, rank in enumerate(ordered)]


def _in_a_step(rank: CountedRank) -> int:
    """Return how many microbatches are begun before all that began has ended; all where only one kind ran."""
    numbers = [one.microbatch for one in rank.ranges if one.microbatch is not None]
    if numbers:
        return max(numbers) + 1
    letters, ran = {one.letter for one in rank.ranges}, Counter[str]()
    for one in sorted(rank.ranges, key=lambda one: one.start):
        ran[one.letter] += 1
        if len(letters) > 1 and len({ran[letter] for letter in letters}) == 1:
            break
    return max(ran.values())


def _recorded(rank: CountedRank, stage: int, count: int) -> Recorded:
    ran, names, placed = Counter[Any](), list[str](), list[Range]()
    for one in sorted(rank.ranges, key=lambda one: one.start):
        key = (one.letter, one.microbatch)
        step, number = (ran[key], one.microbatch) if one.microbatch is not None else divmod(ran[key], count)
        ran[key] += 1
        names.append(str(step))
        placed.append(Range(Op._make((stage, one.letter, number, 0)), one.start, one.end))
    steps: dict[str, list[Range]] = {}
    for name, waited in zip(names, idle_as_waits(placed, placed[0].start), strict=True):
        steps.setdefault(name, []).append(waited)
    return Recorded(rank.rank, rank.file, steps, apart=True)
