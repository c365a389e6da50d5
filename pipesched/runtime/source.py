"""What a runtime is given as its schedule: a file, a document or a Schedule, checked before it is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pipesched.checks import shown
from pipesched.errors import ConfigError, InvalidSchedule, WrongOperation
from pipesched.pipeline.check import checked
from pipesched.pipeline.schedule import Schedule
from pipesched.results.outcome import Outcome


def checked_schedule(source: object, name: str = "source") -> Schedule:
    """Return the schedule of a path, a document (a mapping, or its JSON text) or an Outcome, or the Schedule itself.

    `name` is the parameter that it was given as. Raises ConfigError for what cannot be read as a schedule, and
    InvalidSchedule, naming operations, for one that breaks the rules of its problem: an operation that is missing or
    stands twice, an order that cannot run.
    """
    try:
        schedule = _schedule_of(source)
    except WrongOperation as error:
        raise InvalidSchedule(str(error)) from None
    except ConfigError as error:
        raise ConfigError(error.message, name, entry=error.entry, where=error.where) from None
    return checked(schedule)


def _schedule_of(source: object) -> Schedule:
    if isinstance(source, Schedule):
        return source
    if isinstance(source, Mapping):
        source = json.dumps(source)
    if isinstance(source, str) and source.lstrip().startswith("{"):
        from pipesched.documents.schedule import parse

        return parse(source, "the document").schedule
    if isinstance(source, (str, Path)):
        from pipesched.file_formats.files import read

        source = read(source)
    if isinstance(source, Outcome) and isinstance(source.schedule, Schedule):
        return source.schedule
    raise ConfigError(f"must be a Schedule, or the document of one or its path, not {shown(source)}", "source")
