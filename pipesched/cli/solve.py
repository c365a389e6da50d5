"""`pipesched solve`: the best schedule under a memory budget, with a proof or a stated gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipesched.checks import MOST_SECONDS
from pipesched.cli import output
from pipesched.cli.options import ChartOptions, ProblemSource, Screen, SearchOptions, Target, argument
from pipesched.cli.progress import is_quiet, left_for_search, most_classified, progress_of_solve
from pipesched.cli.reading import given_config, note_made, note_on_stderr, read_schedule, with_config
from pipesched.errors import ConfigError, NoSchedule
from pipesched.pipeline.problem.placement import PLACEMENTS
from pipesched.pipeline.problem.problem import Problem, letters_of
from pipesched.pipeline.problem.units import TRAIN
from pipesched.results.kinds import FRONTIER, SCHEDULE

if TYPE_CHECKING:
    from pipesched.config.load import Config

SECONDS = 60.0  # of a solve, by default


def command(
    file: str | None = argument("FILE", "YAML file of the problem, as -c; - reads standard input."),
    *,
    problem: ProblemSource,
    search: SearchOptions,
    executor: str | None,
    chart: ChartOptions,
    target: Target,
    screen: Screen,
) -> None:
    """Find the shortest schedule within the memory budget, and prove it or say how far it may be from the best.

    --placement may name several to choose from (linear,loop,v); by default all that suit the stages but bidirectional,
    which keeps two copies of the weights. Where the cut of layers into stages is open (layout best or balanced), it is
    searched too, for each of --chunks 1,2. Ctrl-C ends the search with the best schedule so far.
    """
    source = problem if file is None else with_config(problem, file)
    form = output.target_format(target, FRONTIER if search.frontier else SCHEDULE)  # before anything takes long
    if form is not None and form.name == "pytorch-csv" and (search.offload or search.recompute):
        what = "PyTorch's CSV has no operations for --offload and --recompute; leave them out, or write .json"
        raise ConfigError(f"--output: {what}")
    config, settings = _read(source, search)
    settings["executor"] = executor
    assumed = config.assumes_halves and not is_quiet()
    if search.frontier:
        output.refuse_chart_options(chart, "--frontier")
        frontier = _searched(config.problem, _timed(settings, 0), frontier=True)
        note_made(source, (point.outcome for point in frontier), assumed=assumed)
        with output.saving(frontier, FRONTIER, target, chart.view):
            output.print_result(frontier, screen)
        return
    classified = min(most_classified(settings.get("time_limit", SECONDS)), output.MOST_CLASSIFIED)
    operations, drawn = _operations(config.problem, settings), not screen.as_json
    printed = {"documents": screen.as_json + (target.path is not None), "chart": drawn}
    timed = _timed(settings, operations, **printed, classes=drawn and operations <= classified)
    outcome = _searched(config.problem, timed, frontier=False)
    note_made(source, [outcome], assumed=assumed, fused=config.problem)
    if screen.as_json and outcome.schedule.plan.note:
        note_on_stderr(outcome.schedule.plan.note)
    shown: dict[str, Any] = {"timing": not is_quiet(), "most_classified": classified}
    output.answer_schedule(outcome, chart, target, screen, config.problem, **shown)


def _read(source: ProblemSource, search: SearchOptions) -> tuple[Config, dict[str, Any]]:
    """Return the config, and the arguments of the search: its choices, with what options say on top."""
    from pipesched.pipeline.check.check import checked
    from pipesched.schedulers.registry import is_known

    apart = ("hint", "frontier")  # which are looked at below
    settings = {name: value for name, value in search._asdict().items() if value is not None and name not in apart}
    if search.frontier:
        refused = {"--hint": search.hint is not None, "--advice": search.advice}
        for flag in (flag for flag, is_given in refused.items() if is_given):
            raise ConfigError(f"{flag}: is for a single budget, not for --frontier")
        settings.pop("advice", None)
    elif search.hint is not None:
        is_name = is_known(search.hint, loads=True)
        no_config = ProblemSource(None, {})
        settings["hint"] = search.hint if is_name else checked(read_schedule(search.hint, no_config).outcome.schedule)
    names = source.overrides.get("placement")
    if isinstance(names, list) and any(name in PLACEMENTS for name in names):  # several to choose from
        settings["placement"] = names
        source = source._replace(overrides={**source.overrides, "placement": "auto"})
    config = given_config(source, chooses=True)
    if search.frontier and settings.pop("cuts", 1) != 1:
        raise ConfigError("--cuts: is for a single budget, not for --frontier, which takes the balanced cuts")
    choices = {name: value for name, value in config.choices._asdict().items() if value is not None}
    return config, {**choices, **settings}


def _operations(problem: Problem, settings: dict[str, Any]) -> int:
    """Return how many operations the answer may have: those of the most chunks, with a split backward if it may be."""
    letters = letters_of(TRAIN, split=settings.get("split_backward", problem.costs.split))
    stages: int = max([problem.stages, *(problem.devices * count for count in settings.get("chunks", ()))])
    return len(letters) * stages * problem.microbatches * problem.slices.count


def _timed(settings: dict[str, Any], operations: int, **printed: Any) -> dict[str, Any]:
    """Return the settings with the part of the command's time limit that is the search's.

    What is `printed` of so many operations takes the rest. A limit that is refused stays as it is.
    """
    limit = settings.get("time_limit", SECONDS)
    if not 0 < limit <= MOST_SECONDS:
        return settings
    whole = {"whole_limit": limit} if printed else {}
    return {**settings, "time_limit": left_for_search(limit, operations, **printed), **whole}


def _searched(problem: Problem, settings: dict[str, Any], *, frontier: bool) -> Any:
    """Return the outcome or the frontier, after Ctrl-C the best so far. Raises KeyboardInterrupt if there is none."""
    from pipesched.cli.exits import stop_on_interrupt
    from pipesched.solver.frontier import frontier as frontier_of
    from pipesched.solver.request import SolveRequest
    from pipesched.solver.solve import solve_request

    with stop_on_interrupt() as stop, progress_of_solve() as listener:
        try:
            if frontier:
                return frontier_of(problem, listener=listener, stop=stop, **settings)
            return solve_request(SolveRequest(problem, listener=listener, stop=stop, **settings))
        except NoSchedule:
            if stop.is_set():
                raise KeyboardInterrupt from None
            raise
