"""`pipesched export`: a schedule, from a file or made on the spot, in another format."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipesched.cli.options import FigureLook, Target

if TYPE_CHECKING:
    from pipesched.outcome import Outcome

Given = tuple[str | None, dict[str, str]]


def command(
    file: Annotated[
        str | None,
        typer.Argument(help="A schedule (our JSON, or PyTorch's CSV); - reads standard input.", metavar="FILE"),
    ] = None,
    *,
    algo: Annotated[
        str | None, typer.Option("--algo", "-a", help="Instead of FILE: one of `pipesched list`.", metavar="NAME")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="json, pytorch-csv, chrome-trace, svg, png, pdf; default: as -o ends.", metavar="FORMAT"),
    ] = None,
    problem: Given,
    algorithm: dict[str, Any],
    figure: FigureLook,
    target: Target,
) -> None:
    """Write a schedule for PyTorch, for a trace viewer, as a figure, or as JSON.

    Text goes to standard output unless -o names a file; so does a picture with -o -.
    """
    from pipesched.formats.registry import FORMATS
    from pipesched.pipeline.check import checked
    from pipesched.render.view import View

    form = FORMATS[_format(to, target)]
    outcome = _outcome(file, algo, problem, algorithm)
    checked(outcome.schedule)
    view = View(label=figure.label, memory=figure.memory, inches=figure.inches)
    _deliver(form.write(outcome, view), target)


def _format(to: str | None, target: Target) -> str:
    """The name of the format, from --to or from the suffix of the file; where it cannot go is said at once."""
    from pipesched.cli.output import refuse_existing, target_format
    from pipesched.errors import ConfigError
    from pipesched.formats.registry import FORMATS
    from pipesched.lookup import find

    to_stdout = target.path in (None, "-")
    if to is None and to_stdout:
        raise ConfigError(f"--to: say the format: {', '.join(FORMATS)}")
    if to is None:
        return target_format(target) or ""
    by_suffix = {one.suffix[1:]: one for one in FORMATS.values()}
    form = find({**FORMATS, **by_suffix}, to.lower().removeprefix("."), "format")
    if target.path is None and form.binary:
        raise ConfigError(f"--output: {form.name} is no text; name a file, for instance schedule{form.suffix}")
    if form.binary and to_stdout and sys.stdout.isatty():
        raise ConfigError(f"--output: {form.name} is no text for a terminal; name a file, or redirect")
    if target.path is not None and not to_stdout:
        refuse_existing(Path(target.path), target.force)
    return form.name


def _outcome(file: str | None, algo: str | None, problem: Given, algorithm: dict[str, Any]) -> Outcome:
    """The schedule of the file, or of the algorithm."""
    from pipesched.cli.output import working
    from pipesched.cli.reading import made_schedule, read_schedule
    from pipesched.config.load import load_config
    from pipesched.errors import ConfigError
    from pipesched.schedulers.family import option_name

    if (file is None) == (algo is None):
        raise ConfigError("give a FILE to export, or --algo NAME to make a schedule (one of them)")
    if algo is not None:
        given, configured = load_config(*problem)
        with working(given):
            return made_schedule(given, configured, algo, algorithm)
    if algorithm:
        raise ConfigError(f"{option_name(next(iter(algorithm)))}: belongs to --algo; {file} is a schedule already")
    return read_schedule(file or "", problem).outcome


def _deliver(content: str | bytes, target: Target) -> None:
    """Onto standard output, or into the file."""
    from pipesched.cli.output import write_file

    if target.path not in (None, "-"):
        write_file(Path(target.path or ""), [content], target.force)
    elif isinstance(content, str):
        sys.stdout.write(content)
    else:
        sys.stdout.buffer.write(content)
