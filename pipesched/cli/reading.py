"""Where schedules come from: an algorithm, or files and standard input, our JSON or PyTorch's CSV, told apart by their
content.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipesched.config.algorithm import Algorithm
    from pipesched.outcome import Outcome
    from pipesched.pipeline.problem import Problem


DEFAULT = "1f1b"


def made_schedule(
    given: Problem, configured: Algorithm | None, name: str | None, options: Mapping[str, Any]
) -> Outcome:
    """By the algorithm of that name, else by the config's, else by the default; with the config's options, if it is
    the config's.
    """
    from pipesched.outcome import run

    if configured is None:
        return run(given, DEFAULT if name is None else name, **options)
    asked = configured.or_named(name, options)
    with asked.located():
        return run(given, asked.name, **asked.options)


class ReadSchedule(NamedTuple):
    """A schedule from a file, not checked yet; a document keeps its text, and a CSV the problem as it was given."""

    outcome: Outcome
    text: str | None = None
    given: Problem | None = None


def read_schedule(name: str, problem: tuple[str | None, dict[str, str]] = (None, {})) -> ReadSchedule:
    """The schedule in a file or on standard input ("-"): a JSON document, or a CSV of PyTorch timed by the costs of
    `problem`.

    Raises ConfigError, and InvalidSchedule for a CSV that cannot run.
    """
    text = _read_text(name, problem[0])
    source = "<stdin>" if name == "-" else name
    if _is_csv(text, source):
        return _read_csv(text, source, problem)
    if any(problem):
        raise ConfigError(f"{source}: a schedule document holds its own problem; configs and their options go with CSV")
    from pipesched.formats.schedule_json import parse

    return ReadSchedule(parse(text, source), text)


def _read_text(name: str, config: str | None) -> str:
    from pipesched.config.load import read_stdin
    from pipesched.config.yaml_reader import decode
    from pipesched.formats.schedule_json import MOST_BYTES

    if name == "-":
        if config == "-":
            raise ConfigError("standard input holds the schedule or the config, not both")
        return decode(read_stdin(MOST_BYTES + 1), "<stdin>", MOST_BYTES)
    try:
        with Path(name).open("rb") as file:
            return decode(file.read(MOST_BYTES + 1), name, MOST_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot read {name!r}: {reason}") from None


def _is_csv(text: str, source: str) -> bool:
    """A CSV begins with an operation such as 0F0, if not with empty cells; a suffix says what else it was meant for."""
    first = text.lstrip(' \t\r\n,"')[:1]
    return (first.isdigit() or first == "(") or (first != "{" and source.lower().endswith(".csv"))


def _read_csv(text: str, source: str, problem: tuple[str | None, dict[str, str]]) -> ReadSchedule:
    from pipesched.config.imported import imported_problem
    from pipesched.formats.pytorch_csv import parse
    from pipesched.outcome import Outcome
    from pipesched.pipeline.schedule import schedule_plan

    plan, placement = parse(text, source)
    fitted, given = imported_problem(plan, placement, *problem, source)
    name = Path(source).stem
    return ReadSchedule(Outcome(name if name.isprintable() else "csv", schedule_plan(fitted, plan)), given=given)
