"""Peaks of memory of published runs beside ours: those of one stage, which take no time."""

from __future__ import annotations

import pytest

import published_memory
from published_memory import Peak, peaks
from published_runs import LeftOut, records


@pytest.fixture(autouse=True)
def dense_runs_of_one_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the GPTs of Megatron-LM's tests only."""
    chosen = [record for record in records() if record["id"].startswith("megatron-golden-gpt3_")]
    monkeypatch.setattr(published_memory, "records", lambda: chosen)


def test_dense_runs_are_near() -> None:
    """Six runs of 7 and 15 billion parameters, all within 3 % and none more than a thousandth over."""
    found = {row.name: row.compared.error for row in peaks() if isinstance(row, Peak)}
    assert len(found) == 6
    assert all(-0.03 < error < 0.001 for error in found.values()), found


def test_what_is_left_out_says_why() -> None:
    """Small models, 8 bits, and single modules that are recomputed."""
    reasons = {row.reason.partition(":")[0].partition(",")[0] for row in peaks() if isinstance(row, LeftOut)}
    assert reasons == {"hidden size below 1024", "in 8 bits", "recomputes single modules"}


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each run, a line for each family and for all, and no goal missed."""
    assert not published_memory.memory_table()
    printed = capsys.readouterr().out
    assert "megatron-golden dense" in printed
    assert printed.count("gpt3_15b_8t_release") == 3
