"""Work in processes: the answers and the exceptions of one process, whatever happens to the others."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched.errors import NotApplicable
from pipesched.parallel import FEWEST_OPERATIONS, in_processes
from pipesched.schedulers.registry import FAMILIES


def squared(number: int) -> int:
    """A piece of work."""
    return number * number


def where(_number: int) -> int:
    """The process that does the work."""
    return os.getpid()


def failing(number: int) -> int:
    """Work whose third call is bad input."""
    if number == 2:
        raise NotApplicable("2 is odd", "number")
    return number


def interrupting(number: int) -> int:
    """Work that gets Ctrl-C as a terminal sends it to every process of a group."""
    os.kill(os.getpid(), signal.SIGINT)
    return number


class Dying:
    """Work that kills the process that does it, but the first one that has started it."""

    def __init__(self, call: int, starter: int, log: Path) -> None:
        self.call, self.starter, self.log = call, starter, log

    def __call__(self, number: int) -> int:
        """Die at the one call, in a worker; note each call that comes through."""
        if number == self.call and os.getpid() != self.starter:
            os.kill(os.getpid(), signal.SIGKILL)
        with self.log.open("a") as file:
            file.write(f"{number} {os.getpid() == self.starter}\n")
        return number * number


def no_workers_left() -> bool:
    """Whether every process that was started has ended, soon."""
    for _ in range(100):
        if not active_children():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("jobs", [1, 2, 3, 0])
def test_results_in_order(jobs: int) -> None:
    """However many processes there are, results come in the order of the calls."""
    calls = list(range(7))
    assert list(in_processes(squared, calls, jobs, work=FEWEST_OPERATIONS)) == [number * number for number in calls]
    assert no_workers_left()


@pytest.mark.parametrize(
    ("calls", "jobs", "work", "alone"),
    [
        (4, 1, FEWEST_OPERATIONS, True),
        (1, 4, 10 * FEWEST_OPERATIONS, True),
        (4, 4, FEWEST_OPERATIONS // 8, True),
        (4, 2, FEWEST_OPERATIONS, False),
    ],
)
def test_processes_only_where_they_pay(calls: int, jobs: int, work: int, alone: bool) -> None:
    """One job, one call, or little work stay in this process; else there are others."""
    processes = set(in_processes(where, range(calls), jobs, work))
    assert (processes == {os.getpid()}) == alone


def test_no_calls() -> None:
    """Nothing to do is done at once."""
    assert list(in_processes(squared, [], 4, FEWEST_OPERATIONS)) == []


@pytest.mark.parametrize("work", [0, FEWEST_OPERATIONS])
def test_an_exception_is_raised_where_its_result_is_due(work: int) -> None:
    """The results before it come through; the exception is the very one, with its attributes."""
    results = in_processes(failing, range(5), 2, work)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(NotApplicable, match="2 is odd") as caught:
        next(results)
    assert caught.value.key == "number"
    assert list(results) == []
    assert no_workers_left()


@pytest.mark.parametrize("call", [0, 3, 5])
def test_a_dying_worker_costs_nothing_but_time(tmp_path: Path, call: int) -> None:
    """A worker that is killed (out of memory, say): this process does what is left, and the answer is the same."""
    log = tmp_path / "log"
    work = Dying(call, os.getpid(), log)
    assert list(in_processes(work, range(6), 2, FEWEST_OPERATIONS)) == [number * number for number in range(6)]
    assert f"{call} True" in log.read_text().splitlines()
    assert no_workers_left()


def test_workers_leave_interrupts_to_the_parent() -> None:
    """Ctrl-C reaches workers too: they go on, and the parent decides."""
    assert list(in_processes(interrupting, range(4), 2, FEWEST_OPERATIONS)) == [0, 1, 2, 3]


def test_leaving_early_ends_the_workers() -> None:
    """Who stops asking for results leaves no process behind."""
    results = in_processes(squared, range(50), 2, FEWEST_OPERATIONS)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert no_workers_left()


def test_a_comparison_is_the_same_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """All algorithms side by side: entries, reasons, options and metrics are those of one process."""
    problem = pipesched.make_problem(devices=4, stages=8, microbatches=9, p2p=0.5, budget=6)
    names = [name for name in FAMILIES if name != "block"]
    given: dict[str, Any] = {"each": {"naive": {"lifo": True}}, "objective": "makespan"}
    alone = pipesched.compare(problem, names, **given)
    monkeypatch.setattr("pipesched.parallel.FEWEST_OPERATIONS", 0)
    together = pipesched.compare(problem, names, jobs=2, **given)
    assert [entry.algorithm for entry in together] == names
    for mine, theirs in zip(together, alone, strict=True):
        assert (mine.metrics, mine.reason, mine.options) == (theirs.metrics, theirs.reason, theirs.options)
    assert no_workers_left()
