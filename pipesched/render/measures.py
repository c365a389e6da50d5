"""The measures of a sweep: what each means, its number, its name and its unit; and the name of what varies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pipesched.checks import look_up
from pipesched.pipeline import units_of_measure as units
from pipesched.render.marks import with_unit
from pipesched.render.summary import FORMULAS
from pipesched.render.timescale import number
from pipesched.results.comparison import Entry, Sweep, SweepPoint, memory_of
from pipesched.text.fields import BY_KEY, words_of

BUBBLE = "bubble"
MICROBATCHES = "microbatches"
TIME, MEMORY, SHARE = "time", "memory", "share"  # what a measure is measured in


class Measure(NamedTuple):
    """What a cell of the table shows: its name in words, its formula, its unit, and whether more of it is better."""

    name: str
    formula: str
    unit: str
    value: Callable[[Mapping[str, Any], float], float]
    more_is_better: bool = False

    @property
    def is_share(self) -> bool:
        """Whether it is a part of something, which is told in percent."""
        return self.unit == SHARE

    def text(self, value: float) -> str:
        """Return a value as a cell shows it."""
        return f"{value:.2%}" if self.is_share else number(int(value) if value.is_integer() else value)

    def scaled(self, value: float) -> float:
        """Return a value as an axis shows it: a share in percent."""
        return value * 100 if self.is_share else value


def _metric(name: str, unit: str, formula: str = "", **more: Any) -> Measure:
    """Return the measure that is a metric of the documents."""
    words = name.replace("_", " ").replace("bubble span", "bubble of span")
    return Measure(words, formula or FORMULAS[words], unit, lambda metrics, _: float(metrics[name]), **more)


MEASURES = {  # by their names in documents
    "makespan": _metric("makespan", TIME),
    "microbatch": Measure(
        "time a microbatch", "makespan / microbatches", TIME, lambda metrics, count: float(metrics["makespan"] / count)
    ),
    "span": _metric("span", TIME),
    "ideal": _metric("ideal", TIME),
    "lower_bound": _metric("lower_bound", TIME, "no schedule is shorter"),
    "gap": _metric("gap", SHARE, "(makespan - bound) / bound"),
    BUBBLE: _metric(BUBBLE, SHARE),
    "bubble_over_ideal": _metric("bubble_over_ideal", SHARE),
    "bubble_span": _metric("bubble_span", SHARE),
    "imbalance": _metric("imbalance", SHARE, "part of the bubble that uneven work makes"),
    "utilization": _metric("utilization", SHARE, "useful work / (devices x makespan)", more_is_better=True),
    "memory": Measure(
        "memory of the fullest device",
        "activations and static memory",
        MEMORY,
        lambda metrics, _: float(max(memory_of(metrics))),
    ),
    "peak_memory": Measure(
        "peak memory",
        "activations of the fullest device",
        MEMORY,
        lambda metrics, _: float(max(metrics["peak_memory"])),
    ),
}
OTHER_NAMES = {  # as tables write them
    "bubble_of_span": "bubble_span",
    "of_span": "bubble_span",
    "over_ideal": "bubble_over_ideal",
    "vs_bound": "gap",
}


def name_of_measure(show: object) -> str:
    """Return the name in MEASURES of a measure, given so or in the words of a table: `bubble-of-span`.

    Raises ConfigError for another.
    """
    spelled = "_".join(show.lower().replace("-", " ").replace("_", " ").split()) if isinstance(show, str) else ""
    known = OTHER_NAMES.get(spelled, spelled)
    if known not in MEASURES:
        look_up(MEASURES, show, "measure", "show")
    return known


def measure_named(show: object) -> Measure:
    """Return the measure of a name. Raises ConfigError."""
    return MEASURES[name_of_measure(show)]


def title_of(sweep: Sweep, measure: Measure) -> str:
    """Return the name of a measure with its unit: `bubble of span (%)`."""
    return with_unit(measure.name, {TIME: sweep.time_unit, MEMORY: sweep.memory_unit, SHARE: "%"}[measure.unit])


def title_of_field(sweep: Sweep) -> str:
    """Return the name of what a sweep varies, with its unit: `memory budget (GB)`."""
    field = BY_KEY.get(sweep.field)
    if field is None or field.dimension is None:
        return words_of(sweep.field)
    return with_unit(words_of(sweep.field), sweep.time_unit if field.dimension == units.TIME else sweep.memory_unit)


def fits(entry: Entry) -> bool:
    """Return whether an algorithm applies, and its schedule is within the budget."""
    return entry.metrics is not None and bool(entry.metrics["fits"])


def value_of(entry: Entry, point: SweepPoint, sweep: Sweep, measure: Measure) -> float | None:
    """Return a measure of an algorithm at a value of the field; None where it does not apply."""
    if entry.metrics is None:
        return None
    count = 1 if sweep.field != MICROBATCHES or isinstance(point.value, str) else point.value
    if entry.outcome is not None:
        count = entry.outcome.problem.microbatches
    return measure.value(entry.metrics, count)
