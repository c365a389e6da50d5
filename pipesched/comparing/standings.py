"""How long steps of compared schedules take, as far as published runs, and one's own, say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pipesched.config.judging import Measured, judge_of
from pipesched.estimation.derived import SetupCutter
from pipesched.estimation.result import Estimate
from pipesched.results.comparison import Entry


def with_standings(
    entries: Iterable[Entry], like: str | None = None, measured: Measured | None = None
) -> Iterator[Entry]:
    """Yield entries of a model on GPUs with how long their steps take.

    Raises ConfigError for an unknown source, and a run of one's own that cannot be read.
    """
    judge, _ = judge_of(like, measured)
    for entry in entries:
        if entry.outcome is None:
            yield entry
        else:
            found = Estimate(entry.outcome)
            yield replace(entry, standing=judge.standing(found))


def is_estimated(cutter: object) -> bool:
    """Return whether a problem was derived from a model on GPUs, by what cuts it."""
    return isinstance(cutter, SetupCutter)
