"""Where calls run: in this process, in others; batches, opening, specifications; the rows are the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Executor, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched import ConfigError, NotApplicable, PipeschedError, Robustness, WorkerDied, open_executor
from pipesched.executors import cores, opening
from pipesched.executors.batches import FEWEST, GROWTH, CallBatch, map_batches
from pipesched.executors.local import GUARD, InThisProcess, LocalExecutor
from pipesched.executors.opening import FEWEST_OPERATIONS, Spec, chosen, lent, read_spec, spec_of_jobs, workers_of
from tests.examples import at_night_but
from tests.executors.work import (
    DeadlyOnce,
    DeadlyWithOthers,
    Noting,
    broken,
    deadly,
    failing,
    hiding,
    interrupting,
    refusing,
    slowly,
    squared,
    where,
    workers_left,
)

FAMILIES = {one.name: one for one in pipesched.algorithms()}
FOR_EVER = 10**6  # seconds: a test that waits for it hangs


@pytest.mark.parametrize("calls", [[0, 3, 9]], ids=str)
def test_a_worker_that_dies_loses_nothing(tmp_path: Path, calls: list[int]) -> None:
    """What it did is done by another one."""
    with open_executor("local:2") as executor:
        assert list(map_batches(executor, DeadlyOnce(tmp_path, calls), range(10))) == [n * n for n in range(10)]
    assert sorted(int(mark.name) for mark in tmp_path.iterdir()) == calls
    assert not workers_left()


def test_a_call_that_always_kills_its_worker_is_named() -> None:
    """It is tried twice, and what ran beside it is done."""
    with open_executor("local:2") as executor:
        futures = [executor.submit(deadly, number) for number in range(8)]
        wait(futures)
        assert [future.result() for number, future in enumerate(futures) if number != 3] == [0, 1, 2, 4, 5, 6, 7]
        with pytest.raises(WorkerDied, match=r"^its process was killed by signal 9 twice, as happens when memory runs"):
            futures[3].result()
        with pytest.raises(WorkerDied, match=r"^call 3: its process was killed"):
            list(map_batches(executor, deadly, range(8), name=lambda number: f"call {number}"))
    assert not workers_left()


def test_a_script_without_a_guard(tmp_path: Path) -> None:
    """Which would start processes in each process: one line says so, and nothing else is printed."""
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from pipesched import open_executor\n"
        "with open_executor('local:2') as executor:\n"
        "    print(executor.submit(abs, -1).exception())\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{GUARD}\n", "")


def test_a_call_is_repeated_with_nothing_beside_it(tmp_path: Path) -> None:
    """So that all the memory is there for it."""
    with open_executor("local:3") as executor:
        found = list(map_batches(executor, DeadlyWithOthers(tmp_path), range(12)))
    assert found == [0] * 12
    assert (tmp_path / "died").exists()


def test_a_worker_that_dies_idle_is_replaced() -> None:
    with open_executor("local:2") as executor:
        assert executor.submit(squared, 2).result() == 4
        victim = executor.submit(os.getpid).result()
        os.kill(victim, 9)
        time.sleep(0.2)
        assert [executor.submit(squared, number).result() for number in range(4)] == [0, 1, 4, 9]


def test_what_cannot_be_sent_is_an_error_of_its_call() -> None:
    with open_executor("local:2") as executor:
        for submitted in (executor.submit(lambda: 1), executor.submit(hiding, 1)):
            with pytest.raises(Exception, match=r"[Pp]ickle|local object"):
                submitted.result()
        with pytest.raises(PipeschedError, match="Unsendable cannot be sent: no way"):
            executor.submit(refusing, 1).result()
        assert executor.submit(squared, 3).result() == 9


def test_a_defect_says_where_it_was() -> None:
    """The traceback in the worker is the cause."""
    with open_executor("local:2") as executor:
        for call in (executor.submit(broken, 0).result, lambda: list(map_batches(executor, broken, [1, 0]))):
            with pytest.raises(ZeroDivisionError) as caught:
                call()
            assert "return 1 / number" in str(caught.value.__cause__)


def test_workers_leave_interrupts_to_the_parent() -> None:
    """Ctrl-C reaches workers too: they go on, and the parent decides."""
    with open_executor("local:2") as executor:
        assert list(map_batches(executor, interrupting, range(4))) == [0, 1, 2, 3]


def test_leaving_by_an_exception_ends_the_workers(tmp_path: Path) -> None:
    """So does Ctrl-C: what runs is ended, and what waits never begins."""
    work = Noting(tmp_path / "log", FOR_EVER)
    with suppress(KeyboardInterrupt), open_executor("local:2") as executor:
        futures = [executor.submit(work, number) for number in range(6)]
        while len(work.noted()) < 2:
            time.sleep(0.01)
        raise KeyboardInterrupt
    for future in futures:
        with pytest.raises(CancelledError):
            future.result()
    assert sorted(work.noted()) == [0, 1]
    assert not workers_left()


def test_leaving_waits_for_what_was_submitted(tmp_path: Path) -> None:
    work = Noting(tmp_path / "log", 0.01)
    with open_executor("local:2") as executor:
        futures = [executor.submit(work, number) for number in range(6)]
    assert [future.result() for future in futures] == [0, 1, 2, 3, 4, 5]


def test_closing_the_results_cancels_what_has_not_begun(tmp_path: Path) -> None:
    work = Noting(tmp_path / "log", 0.05)
    with open_executor("local:2") as executor:
        results = map_batches(executor, work, range(1000))
        assert next(results) == 0
        results.close()
        assert list(map_batches(executor, slowly, range(3))) == [0, 1, 4]
    assert len(work.noted()) < 20
    assert not workers_left()


@pytest.fixture(params=["none", "here", "threads", "local:2"])
def pool(request: pytest.FixtureRequest) -> Iterator[Executor | None]:
    """No executor, one of this process, one of the standard library, and processes."""
    if request.param == "none":
        yield None
        return
    made = {"here": InThisProcess, "threads": ThreadPoolExecutor}
    with made[request.param]() if request.param in made else open_executor(request.param) as executor:
        yield executor


def test_results_in_order(pool: Executor | None) -> None:
    assert list(map_batches(pool, squared, range(2000))) == [number * number for number in range(2000)]
    assert list(map_batches(pool, squared, iter(range(50)))) == [number * number for number in range(50)]
    assert list(map_batches(pool, squared, [])) == []


def test_an_exception_is_raised_where_its_result_is_due(pool: Executor | None) -> None:
    """The results before it come through; the exception is the very one, with its attributes."""
    results = map_batches(pool, failing, range(5))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(NotApplicable, match="2 is odd") as caught:
        next(results)
    assert caught.value.key == "number"
    assert list(results) == []


def test_calls_are_read_as_they_are_needed(pool: Executor | None) -> None:
    """Endless calls are fine: a bounded number is ahead of what was asked for."""
    numbers = count()
    results = map_batches(pool, slowly, numbers)
    assert [next(results) for _ in range(3)] == [0, 1, 4]
    results.close()
    assert next(numbers) < 3 + 2 * FEWEST * GROWTH


class Counting(InThisProcess):
    """An executor that notes how many calls each batch holds."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.sizes.append(fn.size)
        return super().submit(fn, *args, **kwargs)


def test_short_calls_are_sent_in_batches_and_long_ones_alone() -> None:
    with Counting() as short:
        list(map_batches(short, squared, iter(range(5000))))
    assert short.sizes[0] == 1
    assert len(short.sizes) < 20
    with Counting() as long:
        list(map_batches(long, slowly, iter(range(12))))
    assert max(long.sizes) <= 5  # of 20 ms
    with Counting() as some:
        list(map_batches(some, squared, range(24)))
    assert max(some.sizes) <= 3  # of a few, any may be long


def test_another_pipesched_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = CallBatch(squared, [1, 2])
    assert batch().results == [1, 4]
    monkeypatch.setattr("pipesched.executors.batches.__version__", "99.1")
    with pytest.raises(ConfigError, match=r"a worker has pipesched 99.1, and this process \d"):
        batch()


@pytest.mark.parametrize("spec", ["local:1", "local:2"])
def test_an_executor_is_one_of_the_standard_library(spec: str) -> None:
    with open_executor(spec) as executor:
        assert isinstance(executor, Executor)
        assert executor.submit(squared, 3).result() == 9
        assert list(executor.map(squared, range(5))) == [0, 1, 4, 9, 16]
        with pytest.raises(ConfigError):
            executor.submit(failing, 2).result()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(squared, 3)
    assert not workers_left()


def test_no_process_before_there_is_work() -> None:
    with open_executor("local:2") as executor:
        assert not workers_left()
        pids = {future.result() for future in [executor.submit(where, number) for number in range(6)]}
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence says what to install."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ConfigError, match=r"needs Dask \(pip install 'pipesched\[dask\]'\)"):
        open_executor("dask://127.0.0.1:8786")


@pytest.mark.parametrize(
    ("spec", "work", "is_here"),
    [
        (None, 10 * FEWEST_OPERATIONS, True),
        ("local:1", 10 * FEWEST_OPERATIONS, True),
        ("local:2", FEWEST_OPERATIONS - 1, True),
        ("local:2", FEWEST_OPERATIONS, False),
    ],
)
def test_processes_only_where_they_pay(spec: str | None, work: int, is_here: bool) -> None:
    """No executor, one process, or little work is done here; else there are others."""
    with lent(spec, work) as pool:
        assert (pool is None) == is_here
    assert not workers_left()


def test_an_executor_that_is_open_is_lent_and_stays_open() -> None:
    with open_executor("local:2") as local:
        with lent(local, 0) as pool:
            assert pool is None  # its processes would have to be started
        local.submit(squared, 1).result()
        with lent(local, 0) as pool:
            assert pool is local
        assert local.submit(squared, 4).result() == 16
    with ThreadPoolExecutor(2) as threads, lent(threads, 0) as pool:
        assert pool is threads
        assert workers_of(pool) == cores()
    with lent(InThisProcess(), FEWEST_OPERATIONS) as pool:
        assert pool is None
        assert workers_of(pool) == 1


def test_a_text_is_opened_and_closed_with_what_still_runs() -> None:
    with lent("local:2", FEWEST_OPERATIONS) as pool:
        assert isinstance(pool, LocalExecutor)
        pool.submit(where, 0)
    assert not workers_left()


def test_what_a_function_was_given() -> None:
    assert chosen(None) is None
    assert chosen(None, 0) == "local"
    assert chosen(None, 4) == chosen("local", 4) == chosen("local:4") == "local:4"
    with ThreadPoolExecutor() as threads:
        assert chosen(threads) is threads
        with pytest.raises(ConfigError, match="jobs: is 4, and there is an"):
            chosen(threads, 4)
    with pytest.raises(ConfigError, match=r"executor: must be local, .* or an Executor, not 3"):
        chosen(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("local", Spec(cores())),
        (" local:16 ", Spec(16)),
        ("dask://[fe80::1]:8786", Spec(1, "dask://[fe80::1]:8786")),
        (" dask://host:8786 ", Spec(1, "dask://host:8786")),
    ],
)
def test_what_is_allowed(text: str, spec: Spec) -> None:
    assert read_spec(text) == spec


@pytest.mark.parametrize(
    ("jobs", "executor", "spec"),
    [
        (0, None, "local"),
        (3, None, "local:3"),
        (0, "local:2", "local:2"),
        (2, "local", "local:2"),
        (0, "dask://h:1", "dask://h:1"),
    ],
)
def test_jobs_and_an_executor(jobs: int, executor: str | None, spec: str) -> None:
    assert spec_of_jobs(jobs, executor) == spec


SMALL = pipesched.make_problem(devices=4, stages=8, microbatches=9, p2p=0.5, budget=6)
PROVED = pipesched.make_problem(devices=4, stages=4, microbatches=4, forward=1, backward_input=1, backward_weight=1)
NAMES = [name for name in FAMILIES if name not in ("block", "v-half", "v-min", "1f1b-v")]  # those take a second


@pytest.fixture(params=at_night_but(("local:2",), ("local:1", "local:2", "dask")))
def rows_pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Executor]:
    """An executor, to which all work goes, however little."""
    monkeypatch.setattr(opening, "FEWEST_OPERATIONS", 0)
    spec = request.getfixturevalue("dask") if request.param == "dask" else request.param
    with open_executor(spec) as executor:
        yield executor


def rows(comparison: pipesched.Comparison) -> list[Any]:
    """All that entries tell."""
    return [(e.algorithm, e.metrics, e.reason, e.options, e.runs_in) for e in comparison]


def test_compare(rows_pool: Executor) -> None:
    """All algorithms: entries, reasons, options and metrics."""
    given: dict[str, Any] = {"each": {"naive": {"lifo": True}}, "objective": "makespan"}
    together = pipesched.compare(SMALL, NAMES, executor=rows_pool, **given)
    assert rows(together) == rows(pipesched.compare(SMALL, NAMES, **given))
    assert [entry.algorithm for entry in together] == NAMES


@pytest.mark.nightly
def test_compare_on_best_cuts(rows_pool: Executor) -> None:
    """The cut of each entry too, and what is known of it."""
    problem = pipesched.make_problem(
        devices=3, chunks=2, layers=11, microbatches=6, layer={"forward": 1, "backward": 2}
    )
    names = ["1f1b", "interleaved", "zb-v", "list", "hanayo"]
    together, alone = (pipesched.compare(problem, names, executor=one) for one in (rows_pool, None))
    assert rows(together) == rows(alone)
    assert [entry.cut for entry in together] == [entry.cut for entry in alone]


@pytest.mark.nightly
def test_sweep(rows_pool: Executor) -> None:
    settings: dict[str, Any] = {"overrides": {"devices": 4, "stages": 4}}
    values = [2, 4, 6, 8, 10]
    together = pipesched.sweep(
        None, "microbatches", values, ["1f1b", "zb-h1", "chimera"], executor=rows_pool, **settings
    )
    alone = pipesched.sweep(None, "microbatches", values, ["1f1b", "zb-h1", "chimera"], **settings)
    assert [point.value for point in together] == values
    assert [rows(point.comparison) for point in together] == [rows(point.comparison) for point in alone]


def test_robustness(rows_pool: Executor) -> None:
    """To the last bit, whatever the parts into which the samples are cut."""
    compared = pipesched.compare(SMALL, ["1f1b", "interleaved", "chimera", "zb-h1"])
    for samples in (2, 5000):
        given: dict[str, Any] = {"samples": samples, "device_noise": 0.1, "seed": 3}
        together: Robustness = pipesched.robustness(compared, executor=rows_pool, **given)
        alone = pipesched.robustness(compared, **given)
        assert together == alone
        assert [row.makespans for row in together] == [row.makespans for row in alone]


def points(frontier: pipesched.Frontier) -> list[Sequence[Any]]:
    """All that points tell."""
    return [(p.budget, p.value, p.bound, p.gap, p.status, p.placement, p.source) for p in frontier]


@pytest.mark.nightly
def test_frontier(rows_pool: Executor) -> None:
    """Budgets are solved ahead, and count only where the frontier comes to them."""
    steps: list[str] = []
    given: dict[str, Any] = {"workers": 1, "time_limit": 60}
    together = pipesched.frontier(PROVED, executor=rows_pool, listener=lambda event: steps.append(event.step), **given)
    assert points(together) == points(pipesched.frontier(PROVED, **given))
    assert all(point.status == "optimal" for point in together)
    assert any(step.endswith("solved") for step in steps) == (not isinstance(rows_pool, InThisProcess))


@pytest.mark.slow
def test_solve(rows_pool: Executor) -> None:
    """Two placements that both need a proof: a worker searches the second, and the answer is that of one process."""
    problem = pipesched.make_problem(devices=3, stages=6, microbatches=5, forward=5, backward=10, budget=2.5)
    steps: list[str] = []
    given: dict[str, Any] = {"workers": 1, "time_limit": 60}
    together = pipesched.solve(problem, executor=rows_pool, listener=lambda event: steps.append(event.step), **given)
    alone = pipesched.solve(problem, **given)
    assert together.report is not None
    assert alone.report is not None
    assert (together.status, together.report.value, together.report.bound, together.report.source) == (
        alone.status, alone.report.value, alone.report.bound, alone.report.source,
    )  # fmt: skip
    assert together.schedule.plan.orders == alone.schedule.plan.orders
    assert ("worker, v" in steps) == (not isinstance(rows_pool, InThisProcess))


def test_texts_name_executors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are opened for the work, and closed after it."""
    monkeypatch.setattr(opening, "FEWEST_OPERATIONS", 0)
    names = ["1f1b", "naive"]
    expected = rows(pipesched.compare(SMALL, names))
    assert rows(pipesched.compare(SMALL, names, jobs=2)) == expected
    assert not workers_left()
    for call in (pipesched.compare, pipesched.frontier, pipesched.solve):
        with pytest.raises(pipesched.ConfigError, match="unknown executor 'lokal'"):
            call(SMALL, executor="lokal")
