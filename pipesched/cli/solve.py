"""`pipesched solve`: the best schedule under a memory budget, with a proof or a stated gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipesched.cli.options import ChartView, Screen, SearchOptions, Target

if TYPE_CHECKING:
    from pipesched.pipeline.problem import Problem
    from pipesched.pipeline.schedule import Schedule
    from pipesched.solver.frontier import FrontierPoint
    from pipesched.solver.search import Listener


def command(
    *,
    problem: tuple[str | None, dict[str, str]],
    search: SearchOptions,
    chart: ChartView,
    target: Target,
    screen: Screen,
) -> None:
    """Find the shortest schedule within the memory budget, and prove it or say how far it may be from the best.

    --placement may name several to choose from (linear,loop,v); by default all that suit the stages but bidirectional,
    which keeps two copies of the weights. Ctrl-C ends the search with the best schedule so far.
    """
    from pipesched.cli.output import print_json, print_schedule, save, window
    from pipesched.cli.progress import progress_on_stderr
    from pipesched.solver.solve import solve

    _check_target(target, search)  # before anything takes long
    given, placements = _given(*problem)
    hint = None if search.hint is None else _hint(search.hint)
    settings = {**search.settings, "placement": placements, "hint": hint}
    with progress_on_stderr(search.quiet) as listener:
        if search.frontier:
            points = _frontier(given, settings, listener)
        else:
            outcome = solve(given, listener=listener, **settings)
    if search.frontier:
        _show_frontier(points, target, screen)
        return
    window(outcome.schedule, chart)  # bad options are said before anything is written
    save(outcome, target, chart)
    if screen.as_json:
        from pipesched.formats.schedule_json import document

        print_json(document(outcome))
    else:
        print_schedule(outcome, chart, screen, given, timing=not search.quiet)


def _check_target(target: Target, search: SearchOptions) -> None:
    """Raises ConfigError for a file that could not be written, or could not hold the schedule."""
    from pipesched.cli.options import SAVING
    from pipesched.cli.output import figure_format, target_format
    from pipesched.errors import ConfigError

    if search.frontier:
        figure_format(target)
    elif target_format(target) == "pytorch-csv" and any(search.settings.get(name) for name in SAVING):
        raise ConfigError(
            "--output: PyTorch's CSV has no operations for --offload and --recompute; leave them out, or write .json"
        )


def _frontier(given: Problem, settings: dict[str, Any], listener: Listener | None) -> list[FrontierPoint]:
    """The best at every budget. Raises ConfigError for a hint, which is for one budget."""
    from pipesched.errors import ConfigError
    from pipesched.solver.frontier import frontier

    if settings.pop("hint") is not None:
        raise ConfigError("--hint: is for a single budget, not for --frontier")
    return frontier(given, listener=listener, **settings)


def _show_frontier(points: list[FrontierPoint], target: Target, screen: Screen) -> None:
    """The plot and the table, or the document; the file is a document or a figure."""
    from pipesched.cli.output import console_for, figure_format, print_json, save_image, save_json
    from pipesched.formats.frontier_json import frontier_document

    content = frontier_document(points)
    kind = figure_format(target)
    if kind is None:
        save_json(content, target)
    else:
        from pipesched.render.figure.solved import solved_image

        save_image(solved_image(points, kind), target)
    if screen.as_json:
        print_json(content)
    else:
        from pipesched.render.frontier import frontier_view

        console = console_for(screen)
        console.print(frontier_view(points, ascii_only=screen.ascii_only or console.options.ascii_only))


def _given(path: str | None, overrides: dict[str, str]) -> tuple[Problem, list[str]]:
    """The problem, and the placements to try: --placement may be a list of names, where a config has but one."""
    from pipesched.config.load import load_problem
    from pipesched.pipeline.placement import PLACEMENTS
    from pipesched.solver.placements import AUTO

    names = [name.strip() for name in overrides.get("--placement", AUTO).split(",")]
    if len(names) > 1 and any(name in PLACEMENTS for name in names):
        return load_problem(path, {**overrides, "--placement": AUTO}), names
    return load_problem(path, overrides), [AUTO]


def _hint(name: str) -> Schedule:
    """The schedule in a file, which must keep its rules."""
    from pipesched.cli.reading import read_schedule
    from pipesched.pipeline.check import checked

    return checked(read_schedule(name)[0].schedule)
