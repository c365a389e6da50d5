"""Several algorithms on the same problem, and on a range of problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

from pipesched.errors import ConfigError, NoSchedule, NotApplicable
from pipesched.outcome import Outcome, run
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import option_name
from pipesched.schedulers.registry import family


class Entry(NamedTuple):
    """One algorithm of a comparison: its outcome, or why it does not apply; and the options that it was given."""

    algorithm: str
    outcome: Outcome | None
    reason: str = ""
    options: Mapping[str, Any] = MappingProxyType({})


def compare(problem: Problem, names: Sequence[str], options: Mapping[str, Any] | None = None) -> list[Entry]:
    """Run each algorithm on `problem`. An option goes to the algorithms that know it.

    Raises ConfigError for an unknown algorithm, or for an option that none of them knows.
    """
    families = [family(name) for name in names]
    options = options or {}
    for option in options:
        if not any(option in one.options for one in families):
            raise ConfigError(f"none of {', '.join(names)} takes the option {option_name(option)}")
    entries = []
    for one in families:
        known = {option: value for option, value in options.items() if option in one.options}
        try:
            entries.append(Entry(one.name, run(problem, one.name, **known), options=known))
        except (NotApplicable, NoSchedule) as error:
            entries.append(Entry(one.name, None, str(error), known))
    return entries


def ranked(entries: Sequence[Entry]) -> list[Entry]:
    """Shortest makespan first, of equal ones the least peak; those over budget after all that fit, and those that do
    not apply last.
    """

    def rank(entry: Entry) -> tuple[bool, bool, Fraction, Fraction]:
        if entry.outcome is None:
            return True, True, Fraction(0), Fraction(0)
        schedule = entry.outcome.schedule
        time, memory = schedule.problem.costs.scale, schedule.problem.memory.scale
        makespan, peak = Fraction(schedule.makespan, time), Fraction(max(schedule.peak_memory), memory)
        return False, not schedule.fits, makespan, peak

    return sorted(entries, key=rank)


def best_makespan(entries: Sequence[Entry]) -> int | None:
    """The least makespan of a schedule that fits its budget, or of any when none fits; None when none applies."""
    outcomes = [entry.outcome for entry in entries if entry.outcome]
    fitting = [outcome for outcome in outcomes if outcome.schedule.fits] or outcomes
    return min((outcome.schedule.makespan for outcome in fitting), default=None)
