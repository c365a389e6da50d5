"""`pipesched explore`: edit schedules in the terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from pipesched.cli import reading
from pipesched.cli.options import ProblemSource, Screen, option, parse_value
from pipesched.cli.progress import no_progress
from pipesched.cli.traces import PLAN, RANGES, all_traces, read_timeline
from pipesched.documents.json_text import dump
from pipesched.errors import ConfigError
from pipesched.results.outcome import Outcome

if TYPE_CHECKING:
    from pipesched.config.load import Config
    from pipesched.config.values import Source
    from pipesched.explore.pipeline_board import PipelinePlanner
    from pipesched.explore.state import State, Unplaced

EMPTY_ALGO = "list"  # whose operations are placed, where no algorithm is named: linear, unfused


def command(
    words: list[str] | None = reading.TO_EXPLAIN,
    *,
    algo: str | None = reading.ALGO,
    plan: str | None = PLAN,
    ranges: str | None = RANGES,
    empty: bool = option("--empty", "Begin with empty devices, and place operation by operation."),
    problem: ProblemSource,
    algorithm: dict[str, Any],
    screen: Screen,
) -> None:
    """Edit a schedule in the terminal: move operations where they may stand, and see at once what it changes.

    Keys and mouse; `?` lists them. Needs `pip install 'pipesched[explore]'`.
    """
    if screen.as_json or screen.width is not None:
        flag = "--json" if screen.as_json else "--width"
        raise ConfigError(f"{flag}: has no effect on explore, which draws on the whole terminal")
    require_terminal()
    if plan is not None or ranges is not None or all_traces(words or []):
        if algo is not None or algorithm or empty:
            raise ConfigError("the traces of a run are shown alone; give no algorithm, and not --empty")
        state, pool, exercise = _of_traces(words or [], plan, ranges, problem), None, None
    else:
        state, pool, exercise = _begin(words or [], algo, problem, algorithm, empty=empty)
    run(state, pool, screen)
    if exercise is not None:
        from pipesched.comparing.exercise import grade
        from pipesched.explore.pipeline_board import PipelineBoard

        if isinstance(state.board, PipelineBoard) and not state.board.missing:
            print(grade(exercise, state.board.schedule))


def require_terminal() -> None:
    """Raise ConfigError where Textual is not installed, or there is no terminal."""
    from importlib.util import find_spec

    if find_spec("textual") is None:
        raise ConfigError("explore needs Textual: pip install 'pipesched[explore]'")
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("explore needs a terminal, for input and output; `pipesched explain` prints")
    if os.environ.get("TERM") == "dumb":
        raise ConfigError("explore needs a terminal that can be drawn on, and TERM is dumb; `pipesched explain` prints")


def run(state: State, pool: Unplaced | None, screen: Screen) -> None:
    """Run the app. Raises typer.Exit with the code 1 where it broke."""
    from pipesched.explore.app.app import run_app

    with no_progress():
        broke = run_app(state, pool, colour=not screen.no_color, ascii_only=screen.ascii_only)
    if broke:
        raise typer.Exit(1)


def _begin(
    words: list[str], algo: str | None, source: ProblemSource, options: dict[str, Any], *, empty: bool
) -> tuple[State, Unplaced | None, Source | None]:
    """Return what is edited at first, the pool, if it begins empty, and the config, if it is an exercise."""
    from pipesched.comparing.exercise import read_task
    from pipesched.config.values import TASK
    from pipesched.explore.pipeline_board import board_of
    from pipesched.explore.sheet import loaded
    from pipesched.explore.state import State, Unplaced

    names, source = reading.split_positionals(words, source)
    files = [name for name in names if reading.is_file(name)]
    if files and (len(names) > 1 or algo is not None or options or empty):
        raise ConfigError(f"{files[0]}: a schedule of a file is edited alone; give no algorithm, and not --empty")
    if files:
        outcome, planner = _of_file(files[0], source)
        return State(loaded(board_of(outcome), outcome.algorithm), planner), None, None
    if source.config == "-":
        raise ConfigError("-c -: standard input is the keyboard here; give a file")
    config = reading.given_config(source)
    name = reading.only_name(names, algo)
    outcome = reading.made_schedule(config, EMPTY_ALGO if empty and name is None else name, options)
    text = reading.config_source(source.config)
    planner, told = _planner(text, source.overrides, outcome.algorithm, options), ""
    exercise = text if text and re.search(rf"^{TASK}:", text.text, re.MULTILINE) else None
    if exercise is not None:
        task = read_task(exercise)
        told = f"{task.say} The goal is a makespan of {task.goal:g}."
    if empty and outcome.schedule.plan.lanes:
        raise ConfigError("--empty: places what devices run; leave out --offload")
    if empty and outcome.problem.has_step:
        raise ConfigError("--empty: places passes alone; leave out what the step has beside them, or open a schedule")
    board = board_of(outcome)
    state = State(loaded(board.emptied() if empty else board, outcome.algorithm), planner)
    state.message = told
    return state, Unplaced(state) if empty else None, exercise


def _of_traces(files: list[str], plan: str | None, ranges: str | None, source: ProblemSource) -> State:
    """Return what was measured, with what was planned as a second schedule."""
    from pipesched.analysis.measured.timeline import config_text
    from pipesched.config.values import Source
    from pipesched.explore.pipeline_board import board_of
    from pipesched.explore.sheet import EditHistory, loaded
    from pipesched.explore.state import State
    from pipesched.pipeline.check.check import checked

    if not files:
        raise ConfigError("--plan and --ranges go with the traces of a run; give them too")
    timeline = read_timeline(files, plan, source, ranges)
    checked(timeline.schedule)
    planner = _planner(Source(config_text(timeline), files[0]), {}, "", {})
    state = State(loaded(board_of(timeline.outcome), timeline.outcome.algorithm), planner)
    if timeline.plan is not None:
        planned = EditHistory(loaded(board_of(timeline.plan), timeline.plan.algorithm))
        planned.settle("0F0")
        state.sheets.append(planned)
        state.message = "measured; Tab shows what was planned"
    return state


def _of_file(name: str, source: ProblemSource) -> tuple[Outcome, PipelinePlanner]:
    """Return the schedule of a file, checked, and what plans its problem anew."""
    from pipesched.comparing.compare import GivenPlan, problem_of_plans
    from pipesched.config.values import Source
    from pipesched.documents.problem import problem_document
    from pipesched.pipeline.check.check import checked

    outcome = reading.read_schedule(name, source).outcome
    checked(outcome.schedule)
    if outcome.problem.layers is not None:
        by_layer = problem_of_plans({name: GivenPlan(None, file=name, problem=outcome.problem)})
        return outcome, _planner(by_layer, {}, "", {})
    text = "".join(dump(problem_document(outcome.problem)))
    return outcome, _planner(Source(text, name), {}, "", {})


def _planner(
    source: Source | None, overrides: Mapping[str, Any], algorithm: str, options: Mapping[str, Any]
) -> PipelinePlanner:
    """Return what plans a config anew by a name, with parameters on top; `options` are of `algorithm` alone."""
    from pipesched.config.load import load_config
    from pipesched.explore.pipeline_board import PipelinePlanner
    from pipesched.schedulers.registry import is_known

    def config_of(parameters: Mapping[str, str]) -> Config:
        given = {key: None if text in ("", "none") else parse_value(text) for key, text in parameters.items()}
        return load_config(source, {**overrides, **given})

    def make(name: str | None, parameters: Mapping[str, str]) -> Outcome:
        config = config_of(parameters)
        known = name if is_known(name) else algorithm if is_known(algorithm) else reading.DEFAULT
        return reading.made_schedule(config, known, options if known == algorithm else {})

    return PipelinePlanner(make, lambda parameters: config_of(parameters).problem)
