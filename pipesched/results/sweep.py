"""Comparisons at several values of one number, or at several words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from pipesched.checks import cut, require_label, require_number, require_sequence, require_type, shown
from pipesched.display import Displayable
from pipesched.pipeline.costs import BRIEF
from pipesched.pipeline.step import AUTO, FULL, LEVELS, REDUCES
from pipesched.results.comparison import Comparison, Entry
from pipesched.schedulers.options import OPTIONS, VARIED

VARIED_WORDS: Mapping[str, tuple[str, ...]] = {  # by the key of what is varied: words that may stand for numbers
    **{key: OPTIONS[key].names for key in VARIED},
    "shard": LEVELS,
    "shard.ahead": (FULL, AUTO),
    "shard.reduce": REDUCES,
}


@dataclass(frozen=True)
class SweepPoint:
    """The comparison at one value of what is varied: a number, or a word.

    Raises ConfigError for a value that is neither.
    """

    value: int | float | str
    comparison: Comparison

    def __post_init__(self) -> None:
        if self.value not in [*chain.from_iterable(VARIED_WORDS.values())]:
            require_number(self.value, "value")
        require_type(self.comparison, Comparison, "a Comparison", "comparison")

    def __repr__(self) -> str:
        return f"SweepPoint({shown(self.value)}, {len(self.comparison)} algorithms)"


@dataclass(frozen=True, repr=False)
class Sweep(Displayable):
    """Comparisons by the value of one field, whose dotted key in a config is `field`.

    `known_unit` is the unit of memory of a sweep without schedules, as a document holds it.
    """

    field: str
    points: tuple[SweepPoint, ...]
    known_unit: str = ""

    def __post_init__(self) -> None:
        require_label(self.field, "field")
        require_label(self.known_unit, "known_unit")
        object.__setattr__(self, "points", tuple(require_sequence(self.points, "points")))
        for point in self.points:
            require_type(point, SweepPoint, "a SweepPoint", "points")

    def __repr__(self) -> str:
        return f"Sweep({cut(self.field, BRIEF)}={shown([point.value for point in self.points])})"

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[SweepPoint]:
        return iter(self.points)

    @property
    def of_words(self) -> bool:
        """Whether words are varied, not numbers alone."""
        return any(isinstance(point.value, str) for point in self.points)

    @property
    def time_unit(self) -> str:
        """The user's unit of time; "" if there is none."""
        return next((point.comparison.time_unit for point in self.points), "")

    @property
    def memory_unit(self) -> str:
        """The user's unit of memory; "" if there is none."""
        outcomes = (entry.outcome for point in self.points for entry in point.comparison)
        return next((outcome.problem.memory.unit for outcome in outcomes if outcome is not None), self.known_unit)

    def only(self, trainer: str) -> Sweep:
        """Return the algorithms whose schedules a trainer of `TRAINERS` takes, at some value at least.

        Raises ConfigError as `Entry.suits` does.
        """
        names = {entry.algorithm for point in self.points for entry in point.comparison.only(trainer)}
        points = (
            replace(point, comparison=replace(point.comparison, entries=_named(point.comparison, names)))
            for point in self.points
        )
        return replace(self, points=tuple(points))


def _named(comparison: Comparison, names: Collection[str]) -> tuple[Entry, ...]:
    return tuple(entry for entry in comparison if entry.algorithm in names)
