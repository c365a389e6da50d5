"""Schedules to edit, and the app around them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pipesched import Outcome, Problem, make_problem, run
from pipesched.cli.options import parse_value
from pipesched.config.load import load_config
from pipesched.explore.app.app import ExploreApp
from pipesched.explore.pipeline_board import PipelineBoard, PipelinePlanner, board_of
from pipesched.explore.sheet import loaded
from pipesched.explore.state import State, Unplaced

Result = TypeVar("Result")


def ran(script: Coroutine[Any, Any, Result]) -> Result:
    """Run a script of an app in a thread of its own: a browser of other tests may have a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, script).result()


def outcome_of(algorithm: str = "interleaved", **arguments: Any) -> Outcome:
    given = {"devices": 4, "stages": 8, "microbatches": 8, "forward": 5, "backward": 10, **arguments}
    return run(make_problem(**given), algorithm)


def maker(algorithm: str, **arguments: Any) -> Callable[[str | None, Mapping[str, str]], Outcome]:
    def make(name: str | None, parameters: Mapping[str, str]) -> Outcome:
        return run(
            load_config(None, given(arguments, parameters)).problem, algorithm if name in (None, "solve") else name
        )

    return make


def state_of(algorithm: str = "interleaved", **arguments: Any) -> State:
    return state_at(outcome_of(algorithm, **arguments), planner_of(algorithm, **arguments))


def state_at(outcome: Outcome, planner: PipelinePlanner | None = None) -> State:
    """A state that begins at an outcome."""
    return State(loaded(board_of(outcome), outcome.algorithm), planner or PipelinePlanner(maker(outcome.algorithm)))


def board(state: State) -> PipelineBoard:
    """What it edits."""
    assert isinstance(state.board, PipelineBoard)
    return state.board


def planner_of(algorithm: str, **arguments: Any) -> PipelinePlanner:
    def state(parameters: Mapping[str, str]) -> Problem:
        return load_config(None, given(arguments, parameters)).problem

    return PipelinePlanner(maker(algorithm, **arguments), state)


def given(arguments: Mapping[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    numbers = {key: parse_value(text) for key, text in parameters.items()}
    return {"devices": 4, "stages": 8, "microbatches": 8, "forward": 5, "backward": 10, **arguments, **numbers}


def pool_of(algorithm: str = "list", **arguments: Any) -> Unplaced:
    outcome = outcome_of(algorithm, **arguments)
    planner = planner_of(algorithm, **arguments)
    return Unplaced(State(loaded(board_of(outcome).emptied(), outcome.algorithm), planner))


def app_of(state: State, pool: Unplaced | None = None, **look: bool) -> ExploreApp:
    return ExploreApp(state, pool, **look)


async def quiet(*_: float) -> None:
    """Wait until all that was begun is done, and nothing waits but for the clock, a thread or a key."""
    for _turn in range(100):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    for module in ("app", "pilot"):
        monkeypatch.setattr(f"textual.{module}.wait_for_idle", quiet)
