"""Writing what was edited: checked before, and read back where the format can be."""

from __future__ import annotations

from pathlib import Path

from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.file_formats.files import content_of, read, refuse_existing, write_file
from pipesched.file_formats.registry import FORMATS, SCHEDULE, format_of, formats_that_hold
from pipesched.pipeline.check import check, checked
from pipesched.results.outcome import Outcome


def save_schedule(outcome: Outcome, path: str, *, force: bool) -> str:
    """Write a schedule in the format of the suffix of `path`, check what was written, and say so.

    Raises ConfigError for a path that cannot be written, or exists without `force`; InvalidSchedule for a schedule that
    breaks a rule, and for a file that does not hold what was written.
    """
    form = format_of(path, formats_that_hold(SCHEDULE))
    target = Path(path).expanduser()
    refuse_existing(target, force)
    content = content_of(Outcome(outcome.algorithm, checked(outcome.schedule)), form, SCHEDULE)
    write_file(target, [content], force)
    if form.name == "json":
        back = read(target)
        wrong = check(back)
        if not isinstance(back, Outcome) or wrong or back.schedule.makespan != outcome.schedule.makespan:
            raise InvalidSchedule(f"{path} does not hold what was written: {(wrong or ['another makespan'])[0]}")
        return f"saved {path}: read back and checked, every rule holds"
    return f"saved {path}: checked, every rule holds"


def exists(path: str) -> bool:
    """Return whether a file would be replaced. Raises ConfigError for a path without a format."""
    if not path.strip():
        raise ConfigError("give the path of a file, such as mine.json")
    format_of(path, formats_that_hold(SCHEDULE))
    return Path(path).expanduser().exists()


def suffixes() -> str:
    """Return the suffixes of what a schedule can be saved as."""
    return ", ".join(FORMATS[name].suffix for name in formats_that_hold(SCHEDULE))
