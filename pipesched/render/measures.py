"""The measures of a sweep: what each means, its number, and its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pipesched.render.timescale import number
from pipesched.results.comparison import Entry, memory_of
from pipesched.results.sweep import Sweep, SweepPoint

BUBBLE = "bubble"
MICROBATCHES = "microbatches"


class Measure(NamedTuple):
    """What a cell of the table shows: its meaning, its number, its text, and whether more of it is better."""

    meaning: str
    value: Callable[[Mapping[str, Any], float], float]
    text: Callable[[float], str]
    more_is_better: bool = False

    @property
    def is_share(self) -> bool:
        """Whether it is a part of something, which is told in percent."""
        return self.text is _percent


def _percent(value: float) -> str:
    return f"{value:.2%}"


def _plain(value: float) -> str:
    return number(int(value) if value.is_integer() else value)


MEASURES = {
    "makespan": Measure("makespan", lambda metrics, _: float(metrics["makespan"]), _plain),
    "microbatch": Measure(
        "time a microbatch: makespan / microbatches", lambda metrics, count: float(metrics["makespan"] / count), _plain
    ),
    BUBBLE: Measure("bubble: idle device-time / (devices x makespan)", lambda metrics, _: metrics["bubble"], _percent),
    "utilization": Measure(
        "utilization: useful work / (devices x makespan)", lambda metrics, _: metrics["utilization"], _percent, True
    ),
    "memory": Measure(
        "memory of the device that holds most", lambda metrics, _: float(max(memory_of(metrics))), _plain
    ),
}


def fits(entry: Entry) -> bool:
    """Return whether an algorithm applies, and its schedule is within the budget."""
    return entry.metrics is not None and bool(entry.metrics["fits"])


def value_of(entry: Entry, point: SweepPoint, sweep: Sweep, measure: Measure) -> float | None:
    """Return a measure of an algorithm at a value of the field; None where it does not apply."""
    if entry.metrics is None:
        return None
    count: float = point.value if sweep.field == MICROBATCHES else 1
    if entry.outcome is not None:
        count = entry.outcome.problem.microbatches
    return measure.value(entry.metrics, count)
