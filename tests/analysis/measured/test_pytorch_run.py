"""Real traces of real runs of PyTorch's own pipeline runtime are read and drawn."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import pipesched
from pipesched.file_formats.pytorch_csv import dump
from pipesched.pipeline.check.check import check
from pipesched.render.explanation import timeline_view
from tests.torch_ranks import TRACED, Job, Ranks, needs_torch

pytestmark = needs_torch


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """Two processes that run schedules."""
    pool = Ranks(2, tmp_path_factory.mktemp("ranks"))
    yield pool
    pool.stop()


@pytest.mark.parametrize(("algorithm", "chunks"), [("1f1b", 1), ("zb-h1", 1), ("interleaved", 2), ("dualpipe-v", 2)])
def test_a_real_run(ranks: Ranks, tmp_path: Path, algorithm: str, chunks: int) -> None:
    """Every operation of the schedule is measured in each step, in its order, within every rule, below its plan."""
    problem = pipesched.make_problem(
        devices=2, chunks=chunks, microbatches=4, forward=100, backward=200, time_unit="us"
    )
    plan = pipesched.run(problem, algorithm)
    (tmp_path / "schedule.csv").write_text(dump(plan.schedule))
    read = pipesched.read(tmp_path / "schedule.csv", problem=problem)
    assert isinstance(read, pipesched.Outcome)
    placement = read.problem.settled_placement.devices
    ranks.run(Job(tmp_path / "schedule.csv", placement, 4, traces=tmp_path))
    timeline = pipesched.read_traces([tmp_path / "trace1.json", tmp_path / "trace0.json"], plan=read)
    assert check(timeline.outcome) == []
    assert timeline.steps == TRACED - 1
    for device in range(2):
        ran = [str(slot.slot) for slot in timeline.schedule.timeline(device)]
        assert ran == [str(slot.slot) for slot in read.schedule.timeline(device)]
    assert sum(cost.samples for cost in timeline.costs) == (TRACED - 1) * sum(map(len, read.schedule.plan.orders))
    console = Console(width=100, record=True, file=StringIO())
    console.print(timeline_view(timeline))
    text = console.export_text()
    assert f"planned: {read.algorithm}" in text
    assert "measured  makespan" in text
    assert timeline.to_html(tmp_path / "page.html").read_text(encoding="utf-8").count("measured") > 1
