"""`pipesched export`: a schedule, from a file or made on the spot, in another format, or as a framework's options."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipesched.checks import require_name
from pipesched.cli.options import ProblemSource, Target, argument, option, whole_numbers
from pipesched.cli.output import target_format, write_target
from pipesched.cli.progress import doing
from pipesched.cli.reading import ALGO, asked_outcome, config_source, split_positionals
from pipesched.errors import ConfigError
from pipesched.file_formats.registry import Content, Format, formats_that_hold
from pipesched.results.kinds import SCHEDULE
from pipesched.results.outcome import Outcome


def command(
    words: list[str] | None = argument(
        "NAME|FILE",
        "A schedule's file (our JSON, or PyTorch's CSV; - reads standard input), or an algorithm of `pipesched list`,"
        " and the YAML file of the problem.",
    ),
    *,
    algo: str | None = ALGO,
    to: str | None = option("--to FORMAT", f"{', '.join(formats_that_hold(SCHEDULE))}; default: as -o ends."),
    framework: str | None = option(
        "--for FRAMEWORK",
        "Instead of a format: the options that make a framework train by it: megatron, torchtitan, deepspeed, primus,"
        " zero-bubble, megatron-bridge, maxtext.",
    ),
    layers: str | None = option(
        "--layers N,N..|TEXT",
        "With --for: the decoder layers of each stage, or Megatron-LM's text; default: those of the config, if it has"
        " them.",
    ),
    problem: ProblemSource,
    algorithm: dict[str, Any],
    figure: Any,
    target: Target,
) -> None:
    """Write a schedule for PyTorch, for a trace viewer, as a figure, or as JSON; or hand it over to a framework.

    Text goes to standard output unless -o names a file; so does a picture with -o -.
    """
    from pipesched.config.load import load_values
    from pipesched.file_formats.files import content_of
    from pipesched.pipeline.check.check import checked
    from pipesched.pipeline.layers.layout_text import looks_like_text

    if framework is not None:
        counts = layers if layers is None or looks_like_text(layers) else whole_numbers("--layers", layers, least=0)
        cut = problem
        if counts is not None:  # a config of layers without a `layout` is cut by --layers too
            _, source = split_positionals(words or [], problem)
            values = load_values(config_source(source.config), source.overrides)
            if {"layers", "layer"} & {*values} and "layout" not in problem.overrides:
                cut = problem._replace(overrides={**problem.overrides, "layout": counts})
        _hand_over(framework, counts, to, lambda: _outcome(words, algo, cut, algorithm), target)
        return
    if layers is not None:
        raise ConfigError("--layers: has no effect without --for, which names a framework")
    form = _format(to, target)
    outcome = _outcome(words, algo, problem, algorithm)
    with doing(f"writing {form.name}"):
        checked(outcome.schedule)
        content = content_of(outcome, form, SCHEDULE, figure)
    _deliver(content, target)


def _hand_over(framework: str, counts: Any, to: str | None, made: Callable[[], Outcome], target: Target) -> None:
    from pipesched.file_formats.files import refuse_existing
    from pipesched.results.handover.hand_over import FRAMEWORKS, hand_over

    if to is not None:
        raise ConfigError("--to: a format; give either it or --for, which prints options")
    if framework in formats_that_hold(SCHEDULE):
        raise ConfigError(f"--for: {framework} is a format, not a framework; give --to {framework}")
    require_name(FRAMEWORKS, framework, "framework", "--for")
    if target.path not in (None, "-"):
        refuse_existing(Path(str(target.path)), target.force)
    try:
        text = hand_over(made(), framework, layers=counts)
    except ConfigError as error:
        if counts is None or error.key not in ("layers", "layout"):
            raise
        raise ConfigError(f"--layers: {error.message.replace('--layers is', 'the model has')}") from None
    _deliver(text, target)


def _format(to: str | None, target: Target) -> Format:
    from pipesched.file_formats.files import named_format, refuse_existing
    from pipesched.results.handover.hand_over import FRAMEWORKS

    to_stdout = target.path in (None, "-")
    form = None if to is not None or to_stdout else target_format(target, SCHEDULE)
    if form is not None:
        return form
    if to is None:
        raise ConfigError(f"--to: say the format: {', '.join(formats_that_hold(SCHEDULE))}")
    if to in FRAMEWORKS:
        raise ConfigError(f"--to: {to} is a framework, not a format; give --for {to}")
    form = named_format(to, SCHEDULE)
    if target.path is None and form.binary:
        raise ConfigError(f"--output: {form.name} is no text; name a file, for instance schedule{form.suffix}")
    if form.binary and to_stdout and sys.stdout.isatty():
        raise ConfigError(f"--output: {form.name} is no text for a terminal; name a file, or redirect")
    if target.path is not None and not to_stdout:
        refuse_existing(Path(target.path), target.force)
    return form


def _outcome(words: list[str] | None, algo: str | None, problem: ProblemSource, algorithm: dict[str, Any]) -> Outcome:
    if not words and algo is None and problem.config is None:
        raise ConfigError("NAME|FILE: is missing: a schedule's file, an algorithm, or a config")
    return asked_outcome(words or [], algo, problem, algorithm)


def _deliver(content: Content, target: Target) -> None:
    if target.path not in (None, "-"):
        write_target(content, target)
    elif isinstance(content, str):
        sys.stdout.write(content)
        if note := getattr(content, "note", ""):
            print(f"pipesched: note: the CSV {note}", file=sys.stderr)
    else:
        sys.stdout.buffer.write(content)
