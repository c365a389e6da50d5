"""Opening executors, and when work goes to one."""

from __future__ import annotations

import os
import sys
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from pipesched import ConfigError, open_executor
from pipesched.executors import cores
from pipesched.executors.local import InThisProcess, LocalExecutor
from pipesched.executors.opening import FEWEST_OPERATIONS, chosen, lent, workers_of
from tests.executors.work import failing, squared, where, workers_left


@pytest.mark.parametrize("spec", ["local", "local:1", "local:2"])
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
