"""`pipesched tune`: the best layout and schedule of a model on GPUs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipesched.cli.exits import ExitStatus
from pipesched.cli.option import option
from pipesched.cli.options import EVERY_CORE, ProblemSource, Screen, Target, TuningOptions
from pipesched.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipesched.tuning.result import Tuning


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="The YAML file of the setup, and algorithms of `pipesched list`, or solve.", metavar="FILE|NAME"
        ),
    ] = None,
    *,
    pareto: Annotated[bool, option("--pareto", "Print speed against memory instead: a plot, and its points.")] = False,
    layout: Annotated[
        bool, option("--layout", "Print the stages of the best as Megatron-LM and torchtitan take them.")
    ] = False,
    space: ProblemSource,
    tuning: TuningOptions,
    executor: str | None,
    target: Target,
    screen: Screen,
) -> None:
    """Find the fastest layout and schedule of a model on GPUs: the best of every point of a space that fits.

    The YAML file says model, hardware, parallel, batch and training; options replace its values. Each size may be a
    number, several (--tensor 2,4,8), or auto. What is left out as worse or impossible is proved to be. Ctrl-C, or a
    time limit, ends the search with the best so far; -o best.yaml writes the config of the best.
    """
    from pipesched.cli.estimate import print_layout
    from pipesched.cli.output import printed_before, target_format
    from pipesched.cli.positionals import split_positionals

    if pareto and (layout or screen.as_json):
        beside = "--layout, which prints the best alone" if layout else "--json, which holds those points too"
        raise ConfigError(f"--pareto: has no effect with {beside}")
    names, source = split_positionals(words, space)
    form = target_format(target, "tuning")
    found = _tuned(source, [*names, *tuning.names], tuning, executor)
    with printed_before(lambda: _save(found, target, holds_all=form is not None and form.name == "json")):
        if layout and found.estimate is not None:
            print_layout(found.estimate, screen)
        else:
            _print(found, screen, pareto=pareto)
    if found.best is None:
        raise typer.Exit(ExitStatus.ANSWER_IS_NO)


def _tuned(source: ProblemSource, names: Sequence[str], tuning: TuningOptions, executor: str | None) -> Tuning:
    """Return what was found, after Ctrl-C the best so far. Raises KeyboardInterrupt if there is none."""
    from pipesched.cli.interrupts import stop_on_interrupt
    from pipesched.cli.progress import tuning_on_stderr
    from pipesched.cli.reading import config_source, flags_of_problem, note_rounding
    from pipesched.tuning.tune import tune

    config: Any = config_source(source.config)
    settings = {**tuning.settings, "executor": executor or EVERY_CORE}
    with stop_on_interrupt() as stop, flags_of_problem(), tuning_on_stderr(tuning.quiet) as listener:
        note_rounding(config, source.overrides)
        found = tune(config, names or None, stop=stop, listener=listener, **settings, **source.overrides)
        if stop.is_set() and found.best is None:
            raise KeyboardInterrupt
    return found


def _save(found: Tuning, target: Target, *, holds_all: bool) -> None:
    """Write the target file, if there is one; a config only where something fits."""
    from pipesched.cli.output import save

    if target.path is None or holds_all or found.best is not None:
        save(found, "tuning", target)
    else:
        print(f"pipesched: {target.path} is not written: nothing fits", file=sys.stderr)


def _print(found: Tuning, screen: Screen, *, pareto: bool) -> None:
    from pipesched.cli.output import console_for, print_result

    if pareto:
        from pipesched.render.tuning import pareto_view

        console = console_for(screen)
        console.print(pareto_view(found, ascii_only=screen.ascii_only or console.options.ascii_only))
    else:
        print_result(found, screen)
