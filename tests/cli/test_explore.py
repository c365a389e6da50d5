"""`pipesched explore` and `hls --explore`, as far as they go without a terminal."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched.cli import explore as command
from tests.analysis.traces_of_runs import replayed, torch_traces

Completed = subprocess.CompletedProcess[str]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the app would have been started with."""
    found: list[Any] = []
    monkeypatch.setattr(command, "require_terminal", lambda: None)
    monkeypatch.setattr(command, "run", lambda *given: found.append(given))
    return found


def test_without_textual_it_says_how_to_get_it(cli: Callable[..., Completed], monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "textual" else find(name))
    done = cli("explore")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "pipesched: explore needs Textual: pip install 'pipesched[explore]'\n"


def test_no_other_command_imports_textual() -> None:
    code = "import sys; from pipesched.cli.app import app; app(['run', '1f1b'], standalone_mode=False);"
    code += "import pipesched.explore.state, pipesched.explore.drawing; print('textual' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, timeout=60)
    assert done.stdout.endswith("False\n")


def test_an_algorithm_a_config_or_a_file(cli: Callable[..., Completed], begun: list[Any]) -> None:
    assert cli("explore", "zb-h1", "--microbatches", "6").returncode == 0
    state, pool, _ = begun.pop()
    assert (state.sheet.version.algorithm, pool) == ("zb-h1", None)
    assert state.plan(parameters={"microbatches": "10"})
    assert state.board.problem.microbatches == 10
    assert state.plan("1f1b", {"budget": "3"}), state.message
    assert state.plan(parameters={"budget": ""}), state.message
    assert state.board.problem.memory.budget is None
    assert cli("run", "1f1b", "-o", "x.json").returncode == 0
    assert cli("explore", "x.json").returncode == 0
    state, _, _ = begun.pop()
    assert not state.is_unsaved
    assert state.plan("gpipe") or state.message
    assert state.plan("zb-h1", {"microbatches": "12"}), state.message
    assert cli("init", "c.yaml").returncode == 0
    assert cli("explore", "c.yaml").returncode == 0
    assert begun.pop()


def test_traces_of_a_run(cli: Callable[..., Completed], begun: list[Any], tmp_path: Path) -> None:
    """What was measured, a move of which keeps its lengths, and what was planned beside it."""
    problem = pipesched.make_problem(devices=2, microbatches=4, forward=1, backward=2, time_unit="us")
    outcome = pipesched.run(problem, "1f1b")
    pipesched.write(outcome, tmp_path / "plan.json")
    steps = [replayed(outcome.schedule, lambda slot: 1000 + 7 * slot.microbatch, begin=one) for one in (0, 90_000)]
    files = [str(path) for path in torch_traces(tmp_path, steps, [0, 500], apart=True)]
    done = cli("explore", *files, "--plan", "plan.json")
    assert done.returncode == 0, done.stderr
    state, pool, _ = begun.pop()
    assert pool is None
    assert [sheet.version.algorithm for sheet in state.sheets] == ["measured", "1f1b"]
    board = state.board
    moved = board.reordered(0, board.plan.orders[0])
    assert moved.tasks.durations == board.tasks.durations
    assert max(moved.tasks.durations) == 1021 * board.problem.ticks.per_unit // 1000
    assert state.plan("naive"), state.message


def test_empty_takes_the_operations_of_list_or_of_an_algorithm(cli: Callable[..., Completed], begun: list[Any]) -> None:
    assert cli("explore", "--empty").returncode == 0
    state, pool, _ = begun.pop()
    assert state.board.problem.stages == 8
    assert len(pool.waiting) == 128
    assert cli("explore", "--empty", "--algo", "1f1b").returncode == 0
    state, pool, _ = begun.pop()
    assert len(pool.waiting) == 64


def test_units_begin_too(cli: Callable[..., Completed], begun: list[Any]) -> None:
    assert cli("hls", "(a+b)*(c+d)", "--mul", "1", "--add", "1", "--explore").returncode == 0
    state, pool, _ = begun.pop()
    assert state.board.amounts.makespan == 3
    assert state.plan(parameters={"add": "2"}), state.message
    assert state.board.amounts.makespan == 2
    assert pool is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explore", "--json"], "--json: has no effect on explore"),
        (["explore", "x.json", "--empty"], "x.json: a schedule of a file is edited alone"),
        (["explore", "nothing"], "nothing"),
        (["explore", "-c", "-"], "standard input is the keyboard"),
        (["hls", "a*b", "--explore", "--compare"], "leave out --compare"),
        (["hls", "a*b", "--explore", "--json"], "leave out --json"),
    ],
)
def test_what_does_not_go_together_is_refused(
    words: list[str], said: str, cli: Callable[..., Completed], begun: list[Any]
) -> None:
    done = cli(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert not begun


EXERCISE = "task: {goal: 11, best: 9, say: Try it.}\ndevices: 2\nmicrobatches: 2\ncosts: {forward: 1, backward: 2}\n"


def test_an_exercise_begins_with_what_to_do_and_ends_with_points(
    cli: Callable[..., Completed], begun: list[Any], tmp_path: Path
) -> None:
    """Its task is the first message; who leaves with all operations placed is told the points."""
    (tmp_path / "task.yaml").write_text(EXERCISE, encoding="utf-8")
    empty = cli("explore", "--empty", "-c", "task.yaml")
    assert (empty.returncode, empty.stdout) == (0, "")
    assert begun.pop()[0].message == "Try it. The goal is a makespan of 11."
    whole = cli("explore", "1f1b", "-c", "task.yaml")
    assert (whole.returncode, whole.stdout) == (0, "10 of 10 points: makespan 9 is the best that is known\n")
