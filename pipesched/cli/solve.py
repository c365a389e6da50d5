"""`pipesched solve`: the best schedule under a memory budget, with a proof or a stated gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipesched.cli.options import ChartView, Screen, SearchOptions, Target

if TYPE_CHECKING:
    from pipesched.pipeline.problem import Problem
    from pipesched.pipeline.schedule import Schedule


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
    from pipesched.cli.output import print_json, print_schedule, require_json, save, window
    from pipesched.cli.progress import progress_on_stderr
    from pipesched.solver.solve import solve

    require_json(target)
    given, placements = _given(*problem)
    hint = None if search.hint is None else _hint(search.hint)
    with progress_on_stderr(search.quiet) as listener:
        outcome = solve(given, placement=placements, hint=hint, listener=listener, **search.settings)
    window(outcome.schedule, chart)  # bad options are said before anything is written
    save(outcome, target)
    if screen.as_json:
        from pipesched.formats.schedule_json import document

        print_json(document(outcome))
    else:
        print_schedule(outcome, chart, screen, given, timing=not search.quiet)


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
    from pipesched.cli.output import read_schedule
    from pipesched.pipeline.check import checked

    return checked(read_schedule(name)[0].schedule)
