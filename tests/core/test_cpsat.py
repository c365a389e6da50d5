"""CP-SAT's thread, which Ctrl-C or an event stops, and whose callbacks may raise; PSPLIB's projects to their optima."""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Event, Thread, Timer, get_ident
from time import sleep

import pytest

import bench_rcpsp
from pipesched.core import cpsat
from pipesched.core.cpsat import Limits, TaskModel, _Callbacks, _in_thread


class _Searching:
    """A solver that searches until it is told to stop, does not hear it the first time, and ends a little later."""

    def __init__(self, *, is_deaf: bool = False) -> None:
        self.is_deaf, self.told, self.ended = is_deaf, 0, False
        self.begun, self.stopped = Event(), Event()

    def solve(self, model: object, reporter: object) -> int:
        self.begun.set()
        self.stopped.wait()
        sleep(0.2)
        self.ended = True
        return 2

    def stop_search(self) -> None:
        self.told += 1
        if self.told > 1 and not self.is_deaf:
            self.stopped.set()

    def status_name(self, status: int) -> str:
        return {2: "FEASIBLE"}[status]


def job_shop(jobs: int, machines: int) -> TaskModel:
    """A random job shop, in the manner of Taillard's: 20 jobs on 15 machines take hours to prove."""
    model, random = TaskModel(), Random(0)
    horizon = 100 * jobs * machines
    visits: list[list[int]] = [[] for _ in range(machines)]
    for _ in range(jobs):
        tasks = []
        for machine in random.sample(range(machines), machines):
            tasks.append(model.task(random.randint(1, 99), 0, horizon))
            visits[machine].append(tasks[-1])
        for before, after in pairwise(tasks):
            model.after(before, after)
    for users in visits:
        model.one_at_a_time(users)
    model.shortest([0] * len(model.starts), 0, horizon)
    return model


def test_ctrl_c_waits_for_the_end_of_the_search() -> None:
    """The status is there although the search ends some time after Ctrl-C, and is told to stop until it hears."""
    Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert _in_thread(_Searching(), None, None, None) == ("FEASIBLE", True)


def test_an_event_ends_the_search() -> None:
    """An event that another thread sets is heard, and is told to the solver until it hears it."""
    stop = Event()
    Timer(0.1, stop.set).start()
    assert _in_thread(_Searching(), None, None, stop) == ("FEASIBLE", True)


@pytest.mark.parametrize("first", ["ctrl-c", "event"])
def test_a_second_ctrl_c_is_raised(first: str) -> None:
    """Ctrl-C behind Ctrl-C, or behind an event, does not wait for a search that hears nothing."""
    searching, stop, heard = _Searching(is_deaf=True), Event(), list[int]()

    def ask_twice() -> None:
        searching.begun.wait()
        sleep(0.2)  # until the thread that started it listens
        if first == "event":
            stop.set()
        else:
            os.kill(os.getpid(), signal.SIGINT)
        while not searching.told:  # so the first one was heard, and raised nothing
            sleep(0.01)
        heard.append(searching.told)
        os.kill(os.getpid(), signal.SIGINT)

    Thread(target=ask_twice, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        _in_thread(searching, None, None, stop)
    assert heard
    assert not searching.ended
    searching.stopped.set()


def test_a_search_that_ends_by_itself_is_not_interrupted() -> None:
    """An event that nobody sets changes nothing."""
    searching = _Searching()
    searching.stopped.set()
    assert _in_thread(searching, None, None, Event()) == ("FEASIBLE", False)
    assert not searching.told


def test_a_failure_of_the_search_is_raised_here() -> None:
    """What goes wrong in the solver's thread is no silence: it is raised where `solve` was called."""

    class _Failing(_Searching):
        def solve(self, model: object, reporter: object) -> int:
            raise MemoryError("too large")

    with pytest.raises(MemoryError, match="too large"):
        _in_thread(_Failing(), None, None, None)


def test_the_event_keeps_what_was_found() -> None:
    """An event that is set at the first schedule ends a search that had minutes left, and the schedule is there."""
    stop, found = Event(), list[list[int]]()

    def first(starts: list[int], objective: int, bound: int) -> None:
        found.append(starts)
        stop.set()

    answer = job_shop(20, 15).solve(Limits(seconds=300, workers=1, stop=stop), first)
    assert answer.interrupted
    assert answer.status == "feasible"
    assert answer.starts in found


class _Refusal(BaseException):
    """Not even an Exception, as KeyboardInterrupt is none."""


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), _Refusal()], ids=["error", "ctrl-c", "base"])
def test_what_a_callback_raises_ends_the_search_and_is_raised(error: BaseException) -> None:
    """Whatever `progress` raises in CP-SAT's thread comes out of `solve`, itself, after no further call."""
    threads = []

    def refuse(starts: list[int], objective: int, bound: int) -> None:
        threads.append(get_ident())
        raise error

    with pytest.raises(type(error)) as caught:
        job_shop(20, 15).solve(Limits(seconds=300, workers=1), refuse)
    assert caught.value is error
    assert len(threads) == 1
    assert threads != [get_ident()]


def test_what_a_listener_to_bounds_raises_is_raised() -> None:
    """The same of `on_bound`; what `progress` would have said after it is not said."""
    said = []

    def refuse(bound: int) -> None:
        said.append("bound")
        raise ValueError(f"at {bound}")

    with pytest.raises(ValueError, match=r"^at [0-9]+$"):
        job_shop(10, 10).solve(Limits(seconds=300, workers=1), lambda *_: said.append("schedule"), refuse)
    assert said.count("bound") == 1
    assert said[-1] == "bound"


def test_callbacks_never_run_at_once() -> None:
    """Whatever threads call them, a schedule and a bound are told one after the other."""
    callbacks, calls, running = _Callbacks(_Searching()), list[str](), list[str]()

    def recorded(kind: str) -> None:
        running.append(kind)
        sleep(0.01)
        calls.append("alone" if len(running) == 1 else "together")
        running.remove(kind)

    guarded = [callbacks.guarded(recorded), callbacks.guarded(recorded)]
    threads = [Thread(target=function, args=(kind,)) for function in guarded for kind in ("schedule", "bound")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == ["alone"] * 4


@pytest.mark.parametrize("cause", [KeyboardInterrupt(), None])
def test_ctrl_c_while_or_tools_loads(cause: BaseException | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a binary module makes of an interrupt is an interrupt again; a missing module stays what it is."""

    def interrupted(name: str) -> None:
        raise ImportError(f"{name}: initialization failed") from cause

    monkeypatch.setattr(cpsat, "import_module", interrupted)
    with pytest.raises(ImportError if cause is None else KeyboardInterrupt):
        cpsat.load("sat.python.cp_model")


# PSPLIB's projects, to their published optima.

ROOT = Path(__file__).parents[2]
PSPLIB = ROOT / "tests" / "data" / "psplib"
QUICK = ("j3012_7", "j3017_6", "j301_1", "j3028_6", "j3033_4", "j3044_1", "j309_1", "j601_1", "j6022_5", "j6034_1")


@pytest.mark.parametrize("name", QUICK)
def test_projects_to_their_known_optima(name: str) -> None:
    """The instances that are proved in a moment; scripts/bench_rcpsp.py takes all of them."""
    project = bench_rcpsp.read_project(PSPLIB / f"{name}.sm")
    answer = bench_rcpsp.solve_project(project, Limits(seconds=60))
    assert (answer.status, answer.objective) == ("optimal", bench_rcpsp.read_optima(PSPLIB)[name])
    users = [[job for job in range(len(project.durations)) if project.requests[job][r]] for r in range(4)]
    for tick in range(answer.objective or 0):
        for resource, jobs in enumerate(users):
            running = [job for job in jobs if answer.starts[job] <= tick < answer.starts[job] + project.durations[job]]
            assert sum(project.requests[job][resource] for job in running) <= project.capacities[resource]
    for before, after in project.precedences:
        assert answer.starts[before] + project.durations[before] <= answer.starts[after]
