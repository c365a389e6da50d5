"""Schedules of a problem side by side, also at several values of a number or word, and the best by rising budget.

`compare` (comparing/compare.py) returns a Comparison of Entries, `sweep` (comparing/sweep.py) a Sweep of comparisons,
`frontier` (solver/frontier.py) a Frontier; documents/ reads them back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeVar, overload

from pipesched.checks import (
    cut,
    joined,
    require_callable,
    require_fields,
    require_flag,
    require_label,
    require_mapping,
    require_name,
    require_number,
    require_sequence,
    require_text,
    require_type,
    require_whole,
    shown,
)
from pipesched.display import DisplayableRows, HasPage
from pipesched.errors import ConfigError
from pipesched.pipeline.layers.recut import is_cut_open
from pipesched.pipeline.plan.step import AUTO, FULL, GATHERS, LEVELS, QUEUES, REDUCES
from pipesched.pipeline.problem.costs import BRIEF
from pipesched.results.outcome import CHOSEN, CutChoice, Outcome, Status
from pipesched.results.trainers import PYTORCH, TRAINERS, runs_in, takes, weight_copies
from pipesched.schedulers.options import OBJECTIVES, OPTIONS, VARIED, labelled
from pipesched.schedulers.ordering import Ordering
from pipesched.schedulers.registry import called, own_name


def refused(row: Any) -> str:
    """Return the sentence of a row without a schedule: that it does not apply, or failed, and its reason."""
    return f"{called(row.algorithm)} {'failed' if row.failed else 'does not apply'}: {row.reason}"


@dataclass(frozen=True)
class Entry:
    """One algorithm or plan of a comparison: its outcome, or the `reason` why it does not apply.

    An entry that was read from a document has no outcome; what follows from one elsewhere stands in fields of its own.
    Raises ConfigError, about the field at fault, for a value of another type.
    """

    algorithm: str
    outcome: Outcome | None = None
    reason: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # those that the algorithm was given
    document: Mapping[str, Any] | None = field(default=None, repr=False)  # `metrics`, of an entry that was read
    trainers: Sequence[str] = field(default=(), repr=False)  # `runs_in`, of an entry that was read
    copies: int = field(default=1, repr=False)  # `weights`, of an entry that was read
    file: str = field(default="", repr=False)  # where a plan was read
    ordering: Ordering | None = field(default=None, repr=False)  # `fed`, of an entry that was read
    dominated: bool | None = field(default=None, repr=False)  # of one that was read: another is better, none worse
    standing: Any = field(default=None, repr=False, compare=False)  # the time of a step: a Standing of estimation/trust
    cut: CutChoice | None = field(default=None, repr=False)  # how its layers were cut, where that was open
    frozen: bool = field(default=False, repr=False)  # its order was given, and is kept whatever the costs
    failed: bool = field(default=False, repr=False)  # own code did wrong

    def __post_init__(self) -> None:
        for key in ("algorithm", "reason", "file"):
            require_text(getattr(self, key), key)
        for key in ("frozen", "failed"):
            require_flag(getattr(self, key), key)
        require_fields(self, outcome=Outcome, cut=CutChoice, ordering=Ordering)
        require_mapping(self.options, "options by their names", "options")
        if self.document is not None:
            require_mapping(self.document, "metrics by their names, or None", "document")
        for trainer in require_sequence(self.trainers, "trainers"):
            require_text(trainer, "trainers")
        require_whole(self.copies, "copies", least=1)
        require_type(self.dominated, (bool, type(None)), "True, False or None", "dominated")
        if self.standing is not None:
            require_callable(getattr(self.standing, "against", self.standing), "standing")

    def __repr__(self) -> str:
        what = shown(self.reason) if self.metrics is None else f"makespan {self.metrics['makespan']}"
        return f"Entry({shown(self.algorithm, BRIEF)}, {what})"

    @property
    def label(self) -> str:
        """The name of the algorithm, with what it recomputes and offloads and its order: "1f1b, recompute full"."""
        return labelled(called(self.algorithm), self.options)

    @property
    def applicable(self) -> bool:
        """Whether the algorithm suits the problem."""
        return self.metrics is not None

    @property
    def metrics(self) -> Mapping[str, Any] | None:
        """The metrics by their names in the JSON document; None where the algorithm does not apply."""
        return self.document if self.outcome is None else self.outcome.metrics

    @property
    def runs_in(self) -> list[str]:
        """The trainers that load our file of the schedule: "pytorch", from a CSV."""
        return list(self.trainers) if self.outcome is None else runs_in(self.outcome.schedule)

    @property
    def fed(self) -> Ordering | None:
        """The order in which microbatches are fed; None where they are alike, and none was asked for."""
        return self.ordering if self.outcome is None else self.outcome.feeding

    def suits(self, trainer: str) -> bool:
        """Return whether a trainer of `TRAINERS` takes the schedule: `hand_over` does not refuse it.

        Raises ConfigError for another name, and where that is not known: a document says it of PyTorch alone.
        """
        require_name(TRAINERS, trainer, "trainer", "trainer")
        if self.outcome is not None:
            return takes(self.outcome, trainer, "" if self.options else own_name(self.algorithm))
        if self.applicable and trainer != PYTORCH:
            raise ConfigError(f"a document does not say what {trainer} takes; compare the schedules again", "trainer")
        return trainer in self.trainers

    def suited(self, trainer: str) -> Entry:
        """Return the entry, or with a group size that a trainer takes where it refuses the one that was found."""
        from pipesched.results.handover.hand_over import suited

        if self.outcome is None:
            return self
        outcome = suited(self.outcome, trainer, "" if self.options else own_name(self.algorithm))
        return self if outcome is self.outcome else replace(self, outcome=outcome, standing=None)

    @property
    def weights(self) -> int:
        """The number of copies of each stage's weights that the schedule needs: 1, or 2 where it is bidirectional."""
        return self.copies if self.outcome is None else weight_copies(self.outcome.schedule)

    @property
    def rank(self) -> tuple[bool, bool, Fraction, Fraction]:
        """The sort key: what fits its budget comes before what does not, and what does not apply comes last. Otherwise
        the shorter makespan comes first, and of equal makespans the one whose largest device holds less."""
        if self.outcome is not None:
            schedule = self.outcome.schedule
            makespan = Fraction(schedule.makespan_ticks, schedule.problem.ticks.per_unit)
            memory = Fraction(max(schedule.memory_grains), schedule.problem.grains.per_unit)
            return False, not schedule.fits, makespan, memory
        if self.document is None:
            return True, True, Fraction(0), Fraction(0)
        makespan, memory = Fraction(self.document["makespan"]), Fraction(max(memory_of(self.document)))
        return False, not self.document["fits"], makespan, memory


def memory_of(metrics: Mapping[str, Any]) -> Sequence[int | float]:
    """Return what each device holds at most; a document of an earlier pipesched has only its activations."""
    memory: Sequence[int | float] = metrics.get("memory", metrics["peak_memory"])
    return memory


class _Named(Protocol):
    @property
    def algorithm(self) -> str: ...


Named_co = TypeVar("Named_co", bound=_Named, covariant=True)


class NamedRows(DisplayableRows[Named_co]):
    """Rows of algorithms, of which the first of a name, or of an alias, is found by it: `rows["1f1b"]`."""

    @overload
    def __getitem__(self, key: int | str) -> Named_co: ...

    @overload
    def __getitem__(self, key: slice) -> Sequence[Named_co]: ...

    def __getitem__(self, key: int | str | slice) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        by_name = {row.algorithm: row for row in reversed(self)}
        return by_name[key if key in by_name or own_name(key) not in by_name else own_name(key)]


@dataclass(frozen=True, repr=False)
class Comparison(HasPage, NamedRows[Entry]):
    """Entries in the order asked for.

    `comparison["1f1b"]` is the entry of an algorithm, by its name or an alias; `comparison.best` is the best entry.
    `time_unit` and `memory_unit` are the labels of times and of memory, empty where a config names none.
    """

    _rows = "entries"

    entries: tuple[Entry, ...]
    time_unit: str = ""
    memory_unit: str = ""

    def __post_init__(self) -> None:
        require_label(self.time_unit, "time_unit")
        require_label(self.memory_unit, "memory_unit")
        object.__setattr__(self, "entries", tuple(require_sequence(self.entries, "entries")))
        for position, entry in enumerate(self.entries):
            if not isinstance(entry, Entry):
                raise ConfigError(f"must be an Entry, not {shown(entry)}", "entries", entry=position)

    def __repr__(self) -> str:
        values = [entry.metrics["makespan"] if entry.metrics else "n/a" for entry in self.entries]
        texts = [f"{entry.algorithm} {value}" for entry, value in zip(self.entries, values, strict=True)]
        return f"Comparison({joined(texts)})"

    def ranked(self) -> Comparison:
        """Return the same entries, best first (see Entry.rank)."""
        return replace(self, entries=tuple(sorted(self.entries, key=lambda entry: entry.rank)))

    def faster(self, entry: Entry) -> float | None:
        """Return how likely a step of an entry is shorter than that of the first one that applies.

        None for that one, for what does not apply, and where no model on GPUs is compared.
        """
        first = next((one for one in self.entries if one.applicable), None)
        if first is None or entry is first or entry.standing is None or first.standing is None:
            return None
        return float(entry.standing.against(first.standing).faster)

    @property
    def best(self) -> Entry | None:
        """The entry of the shortest makespan that fits its budget, or of any when none fits; None when none applies."""
        best = min(self.entries, key=lambda entry: entry.rank, default=None)
        return best if best is not None and best.applicable else None

    def best_in(self, trainer: str) -> Entry | None:
        """Return the best entry that a trainer takes; None if it takes none. Raises ConfigError as `only` does."""
        return self.only(trainer).best

    def only(self, trainer: str) -> Comparison:
        """Return what failed, and entries whose schedule a trainer takes, in groups that it takes where that is open.

        Raises ConfigError as `Entry.suits` does.
        """
        require_name(TRAINERS, trainer, "trainer", "trainer")
        each = [entry.suited(trainer) for entry in self.entries]
        return replace(self, entries=tuple(entry for entry in each if entry.failed or entry.suits(trainer)))


class ParetoPoint(NamedTuple):
    """A schedule among others, with its makespan and memory in the user's units."""

    outcome: Outcome
    options: Mapping[str, Any]  # of its algorithm
    makespan: Fraction
    memory: Fraction  # that the largest device holds at most, static memory included
    dominated_by: int | None = None  # the position of the first point that dominates this one
    file: str = ""  # where a plan was read

    @property
    def label(self) -> str:
        """The name of the algorithm, with what it recomputes and offloads."""
        return labelled(called(self.outcome.algorithm), self.options)

    @property
    def fits(self) -> bool:
        return self.outcome.schedule.fits

    def dominates(self, other: ParetoPoint) -> bool:
        """Return whether this is no worse than `other` in makespan and memory, better in one, and fits as that does."""
        mine, theirs = (self.makespan, self.memory), (other.makespan, other.memory)
        no_worse = self.makespan <= other.makespan and self.memory <= other.memory
        return no_worse and mine != theirs and (self.fits or not other.fits)


def pareto_points(comparison: Comparison) -> list[ParetoPoint]:
    """Return the schedules of the entries that apply, best first, each with what dominates it."""
    points = [
        ParetoPoint(entry.outcome, entry.options, *entry.rank[2:], file=entry.file)
        for entry in comparison.ranked()
        if entry.outcome is not None
    ]
    above = (next((place for place, other in enumerate(points) if other.dominates(point)), None) for point in points)
    return [point._replace(dominated_by=place) for point, place in zip(points, above, strict=True)]


VARIED_WORDS: Mapping[str, tuple[str, ...]] = {  # by the key of what is varied: words that may stand for numbers
    **{key: OPTIONS[key].shape.words for key in VARIED},
    "shard": LEVELS,
    "messages": QUEUES,
    "shard.ahead": (FULL, AUTO),
    "shard.reduce": REDUCES,
    "shard.gather": GATHERS,
}


@dataclass(frozen=True)
class SweepPoint:
    """The comparison at one value of what is varied: a number, or a word. Raises ConfigError for any other value."""

    value: int | float | str
    comparison: Comparison

    def __post_init__(self) -> None:
        if self.value not in [*chain.from_iterable(VARIED_WORDS.values())]:
            require_number(self.value, "value")
        require_type(self.comparison, Comparison, "a Comparison", "comparison")

    def __repr__(self) -> str:
        return f"SweepPoint({shown(self.value)}, {len(self.comparison)} algorithms)"


@dataclass(frozen=True, repr=False)
class Sweep(DisplayableRows[SweepPoint]):
    """Comparisons by the value of one field, whose dotted key in a config is `field`.

    `known_unit` is the unit of memory of a sweep without schedules, as a document holds it.
    """

    _rows = "points"

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
        left = [point.comparison.only(trainer) for point in self.points]
        names = {entry.algorithm for comparison in left for entry in comparison}
        points = []
        for point in self.points:
            entries = tuple(entry.suited(trainer) for entry in point.comparison if entry.algorithm in names)
            points.append(replace(point, comparison=replace(point.comparison, entries=entries)))
        return replace(self, points=tuple(points))


@dataclass(frozen=True)
class FrontierPoint:
    """The best schedule at a budget (the same for every device, static memory included), up to the next point's.

    `value` and `bound` are of the objective; numbers are in the user's units. A point that was read from a document has
    its `row` and no outcome.
    """

    budget: int | float
    value: int | float
    bound: int | float
    gap: float
    status: Status
    placement: str
    source: str  # what found it, in words
    outcome: Outcome | None = field(default=None, repr=False)
    row: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, repr=False)
class Frontier(DisplayableRows[FrontierPoint]):
    """Points by rising budget, each better than all before it; `objective` is "makespan" or "span".

    `covers` says in words which schedules the bounds are about; each is of schedules within the budget of its point.
    """

    _rows = "points"

    points: tuple[FrontierPoint, ...]
    objective: str = "makespan"
    time_unit: str = ""
    memory_unit: str = ""
    covers: str = CHOSEN

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", tuple(require_sequence(self.points, "points")))
        for point in self.points:
            require_type(point, FrontierPoint, "a FrontierPoint", "points")
        require_name(sorted(OBJECTIVES), self.objective, "objective", "objective")
        require_label(self.time_unit, "time_unit")
        require_label(self.memory_unit, "memory_unit")
        require_label(self.covers, "covers")

    @property
    def proved(self) -> str:
        """What a point is that nothing better can beat, in words: where the cut is open, that holds for its cuts."""
        outcomes = (point.outcome for point in self.points)
        is_open = any(outcome is not None and is_cut_open(outcome.problem) for outcome in outcomes)
        return f"{Status.OPTIMAL} for these cuts" if is_open else str(Status.OPTIMAL)

    def __repr__(self) -> str:
        steps = ", ".join(f"{point.budget}: {point.value}" for point in self.points)
        return f"Frontier({self.objective} by budget {steps})"
