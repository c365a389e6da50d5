"""`pipesched tune`: the best layout and schedule of a model on GPUs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import typer

from pipesched.cli import options
from pipesched.cli.exits import ExitStatus, stop_on_interrupt
from pipesched.cli.options import ProblemSource, Screen, Target, argument, option
from pipesched.cli.output import console_for, print_result, printed_before, save, target_format
from pipesched.cli.progress import progress_of_tuning
from pipesched.cli.reading import config_source, flags_of_problem, note_on_stderr, split_positionals
from pipesched.errors import ConfigError


def command(
    words: list[str] | None = argument(
        "FILE|NAME", "The YAML file of the setup, and algorithms of `pipesched list`, or solve."
    ),
    *,
    pareto: bool = option("--pareto", "Print speed against memory instead: a plot, and its points."),
    all_rows: bool = option(
        "--all-rows", "A row for each point, also where several differ in chunks or algorithm alone."
    ),
    layout: bool = option("--layout", "Print the stages of the best as Megatron-LM and torchtitan take them."),
    space: ProblemSource,
    tuning: options.TuningOptions,
    trust: options.TrustOptions,
    executor: str | None,
    target: Target,
    screen: Screen,
) -> None:
    """Find the fastest layout and schedule of a model on GPUs: the best of every point of a space that fits.

    The YAML file says model, hardware, parallel, batch and training; options replace its values. Each size may be a
    number, several (--tensor 2,4,8), or auto. What is left out as worse or impossible is proved to be; what is unlike
    all published runs is left out too, but for --beyond. Each row says how sure it is. Ctrl-C, or a time limit, ends
    the search with the best so far; -o best.yaml writes the config of the best.
    """
    from pipesched.cli.estimate import print_layout
    from pipesched.config.load import load_values
    from pipesched.config.values import rounding_note
    from pipesched.render.tuning import pareto_view, tuning_view
    from pipesched.tuning.tune import tune

    if pareto and (layout or screen.as_json):
        beside = "--layout, which prints the best alone" if layout else "--json, which holds those points too"
        raise ConfigError(f"--pareto: has no effect with {beside}")
    if all_rows and (pareto or layout or screen.as_json):
        beside = "--pareto" if pareto else "--layout" if layout else "--json"
        raise ConfigError(f"--all-rows: has no effect with {beside}, which folds no rows")
    names, source = split_positionals(words, space)
    form = target_format(target, "tuning")
    asked = {name: value for name, value in tuning._asdict().items() if name != "names"}
    settings = {**options.given(**asked), **trust.beside(None)}
    names += tuning.names
    config: Any = config_source(source.config)
    settings["executor"] = executor or options.EVERY_CORE
    with stop_on_interrupt() as stop, flags_of_problem(), progress_of_tuning() as listener:
        note_on_stderr(rounding_note(load_values(config, source.overrides)))
        found = tune(config, names or None, stop=stop, listener=listener, **settings, **source.overrides)
        if stop.is_set() and found.best is None:
            raise KeyboardInterrupt
    _note_left_out(tuning.only, names)

    def write() -> None:  # a config only where something fits
        if target.path is None or (form is not None and form.name == "json") or found.best is not None:
            save(found, "tuning", target)
        else:
            print(f"pipesched: {target.path} is not written: nothing fits", file=sys.stderr)

    with printed_before(write):
        if layout and found.estimate is not None:
            print_layout(found.estimate, screen)
        elif screen.as_json:
            print_result(found, screen)
        else:
            console = console_for(screen)
            ascii_only = screen.ascii_only or console.options.ascii_only
            looks = pareto_view if pareto else partial(tuning_view, all_rows=all_rows)
            console.print(looks(found, ascii_only=ascii_only))
    if found.best is None:
        raise typer.Exit(ExitStatus.ANSWER_IS_NO)


def _note_left_out(trainer: str | None, names: Sequence[str]) -> None:
    """Say on stderr which of the algorithms that were named a trainer does not have."""
    from pipesched.results.trainers import families_of, takes_orders
    from pipesched.tuning.judged import SOLVE

    if trainer is None:
        return
    left = families_of(trainer, [name for name in names if name != SOLVE])
    out = [name for name in names if name not in left and not (name == SOLVE and takes_orders(trainer))]
    if out:
        print(f"pipesched: note: --only {trainer} leaves out {', '.join(out)}", file=sys.stderr)
