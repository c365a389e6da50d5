"""What a runtime is given as its schedule: a file, a document or a Schedule, checked before it is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pipesched.checks import shown
from pipesched.errors import ConfigError, InvalidSchedule, WrongOperation
from pipesched.pipeline.check import checked
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.units import FORWARD_ONLY
from pipesched.results.outcome import Outcome, run
from pipesched.schedulers.registry import is_known


def checked_schedule(source: object, name: str = "source", problem: Problem | None = None) -> Schedule:
    """Return the schedule of a path, a document (a mapping, or its JSON text) or an Outcome, or the Schedule itself.

    `problem` goes with the path of a CSV, or with the name of an algorithm, which schedules it. `name` is the parameter
    that the source was given as. Raises ConfigError for what cannot be read as a schedule, for slices, for forwards
    alone and for side work, and InvalidSchedule, naming operations, for one that breaks the rules of its problem: an
    operation that is missing or stands twice, an order that cannot run.
    """
    try:
        schedule = _schedule_of(source, problem)
    except WrongOperation as error:
        raise InvalidSchedule(str(error)) from None
    except ConfigError as error:
        if error.key == "problem":
            raise
        raise ConfigError(error.message, name, entry=error.entry, where=error.where) from None
    own = schedule.problem
    if own.slices.count > 1:
        raise ConfigError(f"has {own.slices.count} slices a microbatch; training runs whole microbatches", name)
    if own.mode == FORWARD_ONLY:
        raise ConfigError("is of forwards alone (`mode` forward); training runs backwards too", name)
    if own.side:
        raise ConfigError("has side work (`side`), for which training has no modules", name)
    return checked(schedule)


def _schedule_of(source: object, problem: Problem | None) -> Schedule:
    if is_known(source, loads=True):
        if problem is None:
            raise ConfigError(f"is missing: what {shown(source)} schedules", "problem")
        return run(problem, source).schedule  # type: ignore[arg-type]
    if isinstance(source, Mapping):
        source = json.dumps(source)
    if isinstance(source, (str, Path)) and not str(source).lstrip().startswith("{"):
        from pipesched.file_formats.files import read

        source = read(source, problem=problem)
    elif problem is not None:
        raise ConfigError("goes with an algorithm or a CSV; a schedule has its own", "problem")
    if isinstance(source, str):
        from pipesched.documents.schedule import parse

        source = parse(source, "the document")
    if isinstance(source, Outcome) and isinstance(source.schedule, Schedule):
        return source.schedule
    if isinstance(source, Schedule):
        return source
    raise ConfigError(f"must be a Schedule, or the document of one or its path, not {shown(source)}", "source")
