"""Ctrl-C: the first asks a search to end with what it has, the second ends the program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from types import ModuleType
from typing import Any

import pytest

from pipesched.cli.exits import stop_on_interrupt
from pipesched.errors import NoSchedule
from pipesched.solver import frontier, solve

Cli = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_sets_the_event_and_the_second_raises() -> None:
    """Inside the block one Ctrl-C is a request that raises nothing, the next one a KeyboardInterrupt."""
    with stop_on_interrupt() as stop:
        assert not stop.is_set()
        ctrl_c()
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()


def test_behind_the_block_all_is_as_before() -> None:
    """The handler is put back, also when the block ends by an exception; a new block begins anew."""
    before = signal.getsignal(signal.SIGINT)
    with suppress(ValueError), stop_on_interrupt():
        ctrl_c()
        raise ValueError
    assert signal.getsignal(signal.SIGINT) is before
    with stop_on_interrupt() as stop:
        assert not stop.is_set()
        ctrl_c()
        assert stop.is_set()


@pytest.mark.parametrize(
    ("module", "function", "options"), [(solve, "solve_request", []), (frontier, "frontier", ["--frontier"])]
)
def test_a_search_that_does_not_stop_is_ended_by_the_second(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str, options: list[str]
) -> None:
    """A search that looks away goes on after one Ctrl-C; after two there is no output, and exit code 130."""
    seen = []

    def stubborn(asked: Any, *, stop: Event | None = None, **settings: Any) -> None:
        ctrl_c()
        seen.append((stop or asked.stop).is_set())
        ctrl_c()
        seen.append(False)

    monkeypatch.setattr(module, function, stubborn)
    result = cli("solve", *options)
    assert seen == [True]
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "pipesched: interrupted\n")


@pytest.mark.parametrize("interrupted", [True, False])
def test_nothing_found_yet(cli: Cli, monkeypatch: pytest.MonkeyPatch, interrupted: bool) -> None:
    """A search that was asked to end before it had a schedule ends with 130, not with an answer that is no."""

    def fruitless(request: object) -> None:
        if interrupted:
            ctrl_c()
        raise NoSchedule("nothing was found")

    monkeypatch.setattr(solve, "solve_request", fruitless)
    result = cli("solve", "--json")
    if interrupted:
        assert (result.returncode, result.stdout, result.stderr) == (130, "", "pipesched: interrupted\n")
    else:
        assert (result.returncode, result.stderr) == (1, "pipesched: nothing was found\n")


def test_one_ctrl_c_prints_the_best_so_far(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frontier that is interrupted is printed as far as it is known, with exit code 0."""
    whole = frontier.frontier
    told = []

    def interrupted(problem: Any, *, stop: Event, **settings: Any) -> Any:
        told.append(stop.is_set())
        ctrl_c()
        told.append(stop.is_set())
        return whole(problem, stop=None, **settings)

    monkeypatch.setattr(frontier, "frontier", interrupted)
    options = ("--devices", "2", "--stages", "2", "--microbatches", "2", "--placement", "linear", "--quiet")
    result = cli("solve", "--frontier", *options)
    assert told == [False, True]
    assert (result.returncode, result.stderr) == (0, "")
    assert "budget of a device" in result.stdout


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("options", [[], ["--frontier"]], ids=["solve", "frontier"])
def test_ctrl_c_while_cp_sat_runs(cli: Cli, monkeypatch: pytest.MonkeyPatch, options: list[str], times: int) -> None:
    """One Ctrl-C behind the heuristics gives their best, marked; the second one gives nothing but exit code 130."""

    def interrupted(search: object, number: int, seconds: float) -> None:
        for _ in range(times):
            ctrl_c()

    monkeypatch.setattr(solve, "prove", interrupted)
    problem = ("--stages", "4", "--backward-input", "5", "--backward-weight", "4", "--mem-budget", "3")
    result = cli("solve", *problem, *options, "--method", "cpsat", "--quiet", "--json")
    if times == 2:
        assert (result.returncode, result.stdout, result.stderr) == (130, "", "pipesched: interrupted\n")
        return
    content = json.loads(result.stdout)
    assert (result.returncode, result.stderr) == (0, "")
    if options:
        assert [(row["budget"], row["status"]) for row in content["rows"]] == [(3, "feasible")]
    else:
        assert (content["status"], content["solver"]["stopped_by"]) == ("feasible", "interrupt")
