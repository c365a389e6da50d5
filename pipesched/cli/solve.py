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
from pipesched.pipeline.problem.problem import letters_of
from pipesched.pipeline.problem.units import TRAIN
from pipesched.results.kinds import FRONTIER, SCHEDULE

if TYPE_CHECKING:
    from pipesched.config.load import Config
    from pipesched.pipeline.problem.problem import Problem

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
    problem = with_config(problem, file)
    form = output.target_format(target, FRONTIER if search.frontier else SCHEDULE)  # before anything takes long
    saves = search.settings.get("offload") or search.settings.get("recompute")
    if form is not None and form.name == "pytorch-csv" and saves:
        what = "PyTorch's CSV has no operations for --offload and --recompute; leave them out, or write .json"
        raise ConfigError(f"--output: {what}")
    config, settings = _given(problem, search)
    settings["executor"] = executor
    assumed = config.assumes_halves and not is_quiet()
    given, classified = _limited(config.problem, settings, search, target, screen)
    if search.frontier:
        output.refuse_chart_options(chart, "--frontier")
        found = _searched(config.problem, given, search)
        note_made(problem, (point.outcome for point in found), assumed=assumed)
        with output.saving(found, FRONTIER, target, chart.view):
            output.print_result(found, screen)
        return
    outcome = _searched(config.problem, given, search)
    note_made(problem, [outcome], assumed=assumed, fused=config.problem)
    if screen.as_json and outcome.schedule.plan.note:
        note_on_stderr(outcome.schedule.plan.note)
    output.answer_schedule(
        outcome, chart, target, screen, config.problem, timing=not is_quiet(), most_classified=classified
    )


def _limited(
    problem: Problem, settings: dict[str, Any], search: SearchOptions, target: Target, screen: Screen
) -> tuple[dict[str, Any], int]:
    """Return the settings with what the time limit of the command leaves to the search, and how much is classified."""
    limit = settings.get("time_limit", SECONDS)
    if not 0 < limit <= MOST_SECONDS:
        return settings, output.MOST_CLASSIFIED
    split = settings.get("split_backward")
    is_split = problem.costs.split if split is None else split
    most = max([problem.stages, *(problem.devices * count for count in settings.get("chunks", ()))])
    operations = len(letters_of(TRAIN, split=is_split)) * most * problem.microbatches * problem.slices.count
    classified = min(most_classified(limit), output.MOST_CLASSIFIED)
    shown = not (screen.as_json or search.frontier)
    left = left_for_search(
        limit,
        0 if search.frontier else operations,
        documents=screen.as_json + (target.path is not None),
        chart=shown,
        classes=shown and operations <= classified,
    )
    whole = {} if search.frontier else {"whole_limit": limit}
    return {**settings, "time_limit": left, **whole}, classified


def _searched(given: Problem, settings: dict[str, Any], search: SearchOptions) -> Any:
    """Return the outcome or the frontier, after Ctrl-C the best so far. Raises KeyboardInterrupt if there is none."""
    from pipesched.cli.exits import stop_on_interrupt
    from pipesched.solver.frontier import frontier
    from pipesched.solver.request import SolveRequest
    from pipesched.solver.solve import solve_request

    with stop_on_interrupt() as stop, progress_of_solve() as listener:
        try:
            if search.frontier:
                return frontier(given, listener=listener, stop=stop, **settings)
            return solve_request(SolveRequest(given, listener=listener, stop=stop, **settings))
        except NoSchedule:
            if stop.is_set():
                raise KeyboardInterrupt from None
            raise


def _given(source: ProblemSource, search: SearchOptions) -> tuple[Config, dict[str, Any]]:
    """Return the config, and the settings of the search."""
    from pipesched.pipeline.check.check import checked
    from pipesched.schedulers.registry import is_known

    settings = dict(search.settings)
    if search.hint is not None:
        if search.frontier:
            raise ConfigError("--hint: is for a single budget, not for --frontier")
        is_name = is_known(search.hint, loads=True)
        read = search.hint if is_name else checked(read_schedule(search.hint, ProblemSource(None, {})).outcome.schedule)
        settings["hint"] = read
    if search.frontier and settings.pop("advice", False):
        raise ConfigError("--advice: is for a single budget, not for --frontier")
    names = source.overrides.get("placement")
    if isinstance(names, list) and any(name in PLACEMENTS for name in names):
        settings["placement"] = names
        source = source._replace(overrides={**source.overrides, "placement": "auto"})
    config = given_config(source, chooses=True)
    if search.frontier and settings.pop("cuts", 1) != 1:
        raise ConfigError("--cuts: is for a single budget, not for --frontier, which takes the balanced cuts")
    chosen = {name: value for name, value in config.choices._asdict().items() if value is not None}
    return config, {**chosen, **settings}
