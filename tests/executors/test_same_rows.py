"""The answers of every command that takes an executor: the same from one process, from two, and from a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from typing import Any

import pytest

import pipesched
from pipesched.analysis.robustness import Robustness
from pipesched.executors import opening
from pipesched.executors.local import InThisProcess
from pipesched.executors.opening import open_executor
from pipesched.schedulers.registry import FAMILIES
from tests.executors.work import workers_left

SMALL = pipesched.make_problem(devices=4, stages=8, microbatches=9, p2p=0.5, budget=6)
PROVED = pipesched.make_problem(devices=4, stages=4, microbatches=4, forward=1, backward_input=1, backward_weight=1)
NAMES = [name for name in FAMILIES if name not in ("block", "v-half", "v-min", "1f1b-v")]  # those take a second


@pytest.fixture(params=["local:1", "local:2", "dask"])
def pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Executor]:
    """An executor, to which all work goes, however little."""
    monkeypatch.setattr(opening, "FEWEST_OPERATIONS", 0)
    spec = request.getfixturevalue("dask") if request.param == "dask" else request.param
    with open_executor(spec) as executor:
        yield executor


def rows(comparison: pipesched.Comparison) -> list[Any]:
    """All that entries tell."""
    return [(e.algorithm, e.metrics, e.reason, e.options, e.runs_in) for e in comparison]


def test_compare(pool: Executor) -> None:
    """All algorithms: entries, reasons, options and metrics."""
    given: dict[str, Any] = {"each": {"naive": {"lifo": True}}, "objective": "makespan"}
    together = pipesched.compare(SMALL, NAMES, executor=pool, **given)
    assert rows(together) == rows(pipesched.compare(SMALL, NAMES, **given))
    assert [entry.algorithm for entry in together] == NAMES


def test_compare_on_best_cuts(pool: Executor) -> None:
    """The cut of each entry too, and what is known of it."""
    problem = pipesched.make_problem(
        devices=3, chunks=2, layers=11, microbatches=6, layer={"forward": 1, "backward": 2}
    )
    names = ["1f1b", "interleaved", "zb-v", "list", "hanayo"]
    together, alone = (pipesched.compare(problem, names, executor=one) for one in (pool, None))
    assert rows(together) == rows(alone)
    assert [entry.cut for entry in together] == [entry.cut for entry in alone]


def test_sweep(pool: Executor) -> None:
    settings: dict[str, Any] = {"overrides": {"devices": 4, "stages": 4}}
    values = [2, 4, 6, 8, 10]
    together = pipesched.sweep(None, "microbatches", values, ["1f1b", "zb-h1", "chimera"], executor=pool, **settings)
    alone = pipesched.sweep(None, "microbatches", values, ["1f1b", "zb-h1", "chimera"], **settings)
    assert [point.value for point in together] == values
    assert [rows(point.comparison) for point in together] == [rows(point.comparison) for point in alone]


def test_robustness(pool: Executor) -> None:
    """To the last bit, whatever the parts into which the samples are cut."""
    compared = pipesched.compare(SMALL, ["1f1b", "interleaved", "chimera", "zb-h1"])
    for samples in (2, 1024, 5000):
        given: dict[str, Any] = {"samples": samples, "device_noise": 0.1, "seed": 3}
        together: Robustness = pipesched.robustness(compared, executor=pool, **given)
        alone = pipesched.robustness(compared, **given)
        assert together == alone
        assert [row.makespans for row in together] == [row.makespans for row in alone]


def points(frontier: pipesched.Frontier) -> list[Sequence[Any]]:
    """All that points tell."""
    return [(p.budget, p.value, p.bound, p.gap, p.status, p.placement, p.source) for p in frontier]


@pytest.mark.slow
def test_frontier(pool: Executor) -> None:
    """Budgets are solved ahead, and count only where the frontier comes to them."""
    steps: list[str] = []
    given: dict[str, Any] = {"workers": 1, "time_limit": 60}
    together = pipesched.frontier(PROVED, executor=pool, listener=lambda event: steps.append(event.step), **given)
    assert points(together) == points(pipesched.frontier(PROVED, **given))
    assert all(point.status == "optimal" for point in together)
    assert any(step.endswith("solved") for step in steps) == (not isinstance(pool, InThisProcess))


@pytest.mark.slow
def test_solve(pool: Executor) -> None:
    """Two placements that both need a proof: a worker searches the second, and the answer is that of one process."""
    problem = pipesched.make_problem(devices=3, stages=6, microbatches=5, forward=5, backward=10, budget=2.5)
    steps: list[str] = []
    given: dict[str, Any] = {"workers": 1, "time_limit": 60}
    together = pipesched.solve(problem, executor=pool, listener=lambda event: steps.append(event.step), **given)
    alone = pipesched.solve(problem, **given)
    assert together.report is not None
    assert alone.report is not None
    assert (together.status, together.report.value, together.report.bound, together.report.source) == (
        alone.status, alone.report.value, alone.report.bound, alone.report.source,
    )  # fmt: skip
    assert together.schedule.plan.orders == alone.schedule.plan.orders
    assert ("worker, v" in steps) == (not isinstance(pool, InThisProcess))


def test_texts_name_executors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are opened for the work, and closed after it."""
    monkeypatch.setattr(opening, "FEWEST_OPERATIONS", 0)
    names = ["1f1b", "naive"]
    expected = rows(pipesched.compare(SMALL, names))
    assert rows(pipesched.compare(SMALL, names, executor="local:2")) == expected
    assert rows(pipesched.compare(SMALL, names, jobs=2)) == expected
    assert not workers_left()
    for call in (pipesched.compare, pipesched.frontier, pipesched.solve):
        with pytest.raises(pipesched.ConfigError, match="unknown executor 'lokal'"):
            call(SMALL, executor="lokal")
